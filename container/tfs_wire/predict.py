"""PredictRequest out and PredictResponse in, without a copy or a Python loop over the numbers.

The official messages carry everything but the numbers themselves. Going out, the array's bytes are
appended by hand as ``TensorProto.tensor_content``: protobuf lets a message be written in pieces, so
the large field need not pass through a message object. Coming in, the answer is walked field by
field and float arrays are views of the received bytes: a packed repeated number and a bytes field
are the same on the wire (https://protobuf.dev/programming-guides/encoding/#packed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tfs_wire.dtypes import DT_STRING, number_of
from tfs_wire.fields import LENGTH_DELIMITED, read_fields
from tfs_wire.messages import predict_pb2, tensor_pb2
from tfs_wire.tensor_reader import read_tensor
from tfs_wire.varint import varint

Array = npt.NDArray[np.generic]

_TAG_INPUTS = varint(predict_pb2.PredictRequest.INPUTS_FIELD_NUMBER << 3 | LENGTH_DELIMITED)
_TAG_KEY = varint(1 << 3 | LENGTH_DELIMITED)
_TAG_VALUE = varint(2 << 3 | LENGTH_DELIMITED)
_TAG_CONTENT = varint(tensor_pb2.TensorProto.TENSOR_CONTENT_FIELD_NUMBER << 3 | LENGTH_DELIMITED)
_OUTPUTS = predict_pb2.PredictResponse.OUTPUTS_FIELD_NUMBER


def write_predict_request(
    model: str,
    signature: str,
    inputs: Mapping[str, Array],
    version: int | None = None,
    output_filter: Sequence[str] = (),
) -> bytes:
    """Return a serialized PredictRequest.

    ``inputs`` are arrays of any shape; string tensors are object arrays of bytes. Numbers travel as
    ``tensor_content``, little-endian and row-major. Raises ValueError for a dtype TensorFlow lacks.
    """
    pieces: list[bytes | memoryview] = [_head(model, signature, version, tuple(output_filter))]
    for name, array in inputs.items():
        tensor, content = _tensor_pieces(array)
        size = len(tensor) + len(content)
        key = name.encode()
        entry = _TAG_KEY + varint(len(key)) + key + _TAG_VALUE + varint(size) + tensor
        pieces += [_TAG_INPUTS, varint(len(entry) + len(content)), entry, content]
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _head(model: str, signature: str, version: int | None, output_filter: tuple[str, ...]) -> bytes:
    request = predict_pb2.PredictRequest(output_filter=output_filter)
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    return bytes(request.SerializeToString())


def _tensor_pieces(array: Array) -> tuple[bytes, bytes | memoryview]:
    """Return a TensorProto in two pieces: all up to the content's length, and the content."""
    try:
        number = number_of(array.dtype)
    except KeyError:
        raise ValueError(f"TensorFlow has no dtype {array.dtype}") from None
    if number == DT_STRING:
        return _string_tensor(number, array), b""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    content = _bytes_of(array)
    return _tensor_head(number, array.shape) + _TAG_CONTENT + varint(len(content)), content


def _bytes_of(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@lru_cache(maxsize=256)
def _tensor_head(number: int, shape: tuple[int, ...]) -> bytes:
    return bytes(_empty_tensor(number, shape).SerializeToString())


def _string_tensor(number: int, array: Array) -> bytes:
    tensor = _empty_tensor(number, array.shape)
    tensor.string_val.extend(
        element.encode() if isinstance(element, str) else bytes(element) for element in array.ravel().tolist()
    )
    return bytes(tensor.SerializeToString())


def _empty_tensor(number: int, shape: tuple[int, ...]) -> tensor_pb2.TensorProto:
    tensor = tensor_pb2.TensorProto(dtype=number)
    tensor.tensor_shape.SetInParent()
    for size in shape:
        tensor.tensor_shape.dim.add().size = size
    return tensor


def read_predict_response(data: bytes) -> dict[str, Array]:
    """Return the outputs of a serialized PredictResponse by name.

    Float arrays are read-only views of ``data``. bfloat16 is widened to float32; string tensors are
    object arrays of bytes. Raises ValueError for bytes that are no such message.
    """
    outputs: dict[str, Array] = {}
    for number, _, value in read_fields(memoryview(data)):
        if number == _OUTPUTS:
            name, tensor = _map_entry(value)
            outputs[name] = read_tensor(tensor)
    return outputs


def _map_entry(entry: memoryview) -> tuple[str, memoryview]:
    key, message = "", memoryview(b"")
    for number, _, value in read_fields(entry):
        if number == 1:
            key = str(value, "utf-8")
        elif number == 2:
            message = value
    return key, message
