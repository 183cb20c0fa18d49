"""Writes PredictRequests and reads PredictResponses without a copy or a Python loop over the numbers.

protobuf's messages carry everything except the numbers. Requests: the array's bytes are appended as
``TensorProto.tensor_content``; a serialized message may be written in pieces, so the large field need not pass through
a message object. Responses: the fields are parsed one by one, and float arrays are views of the received bytes, as a
packed repeated field and a bytes field have the same encoding
(https://protobuf.dev/programming-guides/encoding/#packed).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lightbox.model_runtime.wire.dtypes import (
    DT_BFLOAT16,
    DT_HALF,
    DT_STRING,
    FIXED_WIDTH,
    VARINTS,
    name_of,
    number_of,
    numpy_dtype,
)
from lightbox.model_runtime.wire.messages import predict_pb2, tensor_pb2, tensor_shape_pb2
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, read_fields, read_varint, varint

Array = npt.NDArray[np.generic]
Pieces = Sequence[bytes | memoryview]
"""A message in pieces, sent one after another."""

_TAG_INPUTS = varint(predict_pb2.PredictRequest.INPUTS_FIELD_NUMBER << 3 | LENGTH_DELIMITED)
_TAG_KEY = varint(1 << 3 | LENGTH_DELIMITED)
_TAG_VALUE = varint(2 << 3 | LENGTH_DELIMITED)
_TAG_CONTENT = varint(tensor_pb2.TensorProto.TENSOR_CONTENT_FIELD_NUMBER << 3 | LENGTH_DELIMITED)
_OUTPUTS = predict_pb2.PredictResponse.OUTPUTS_FIELD_NUMBER

_T = tensor_pb2.TensorProto
_DTYPE, _SHAPE, _CONTENT, _STRINGS = (
    _T.DTYPE_FIELD_NUMBER,
    _T.TENSOR_SHAPE_FIELD_NUMBER,
    _T.TENSOR_CONTENT_FIELD_NUMBER,
    _T.STRING_VAL_FIELD_NUMBER,
)


def predict_request_pieces(
    model: str,
    signature: str,
    inputs: Mapping[str, Array],
    version: int | None = None,
    output_filter: Sequence[str] = (),
) -> list[bytes | memoryview]:
    """Return the pieces of a serialized PredictRequest; large tensors are not copied.

    ``inputs`` are arrays of any shape; string tensors are object arrays of bytes. Numbers are ``tensor_content``,
    little-endian and row-major. Raises ValueError for a dtype without a counterpart in TensorFlow.
    """
    pieces: list[bytes | memoryview] = [_head(model, signature, version, tuple(output_filter))]
    for name, array in inputs.items():
        tensor, content = _tensor_pieces(array)
        size = len(tensor) + len(content)
        key = name.encode()
        entry = _TAG_KEY + varint(len(key)) + key + _TAG_VALUE + varint(size) + tensor
        pieces += [_TAG_INPUTS, varint(len(entry) + len(content)), entry, content]
    return pieces


@lru_cache(maxsize=256)
def _head(model: str, signature: str, version: int | None, output_filter: tuple[str, ...]) -> bytes:
    request = predict_pb2.PredictRequest(output_filter=output_filter)
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    return bytes(request.SerializeToString())


def _tensor_pieces(array: Array) -> tuple[bytes, bytes | memoryview]:
    """Return a TensorProto in two pieces: everything up to the content's length, and the content."""
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


def read_predict_response(data: bytes | memoryview) -> dict[str, Array]:
    """Return the outputs of a serialized PredictResponse by name.

    Float arrays are read-only views of ``data``. bfloat16 is widened to float32; string tensors are object arrays of
    bytes. Raises ValueError for malformed bytes.
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


def read_tensor(data: memoryview) -> Array:
    """Return the tensor that ``data`` holds; floats and ``tensor_content`` are views of it.

    bfloat16 is widened to float32, strings are an object array of bytes. As in TensorFlow, the last value fills the
    rest of the shape. Raises ValueError for a malformed message, a dtype without a counterpart in numpy, or values that
    do not fit the shape.
    """
    number = 0
    shape: tuple[int, ...] = ()
    content = memoryview(b"")
    strings: list[bytes] = []
    values: list[Array] = []
    for field, _, value in read_fields(data):
        if field == _DTYPE:
            number = read_varint(value, 0)[0]
        elif field == _SHAPE:
            shape = _read_shape(value)
        elif field == _CONTENT:
            content = value
        elif field == _STRINGS:
            strings.append(bytes(value))
        elif field in FIXED_WIDTH:
            values.append(np.frombuffer(value, FIXED_WIDTH[field]))
        elif field in VARINTS:
            values.append(decode_varints(value))
    if number == DT_STRING:
        return _strings(strings, shape)
    if content:
        flat = np.frombuffer(content, "<u2" if number == DT_BFLOAT16 else _dtype(number))
    else:
        flat = _concatenate(values)
    return _shaped(_CAST.get(number, _cast)(flat, number), shape)


def _read_shape(value: memoryview) -> tuple[int, ...]:
    shape = tensor_shape_pb2.TensorShapeProto.FromString(bytes(value))
    if shape.unknown_rank or any(dim.size < 0 for dim in shape.dim):
        raise ValueError("a tensor's shape has an unknown dimension")
    return tuple(int(dim.size) for dim in shape.dim)


def _dtype(number: int) -> np.dtype[np.generic]:
    try:
        return numpy_dtype(number)
    except (KeyError, ImportError):
        raise ValueError(f"a tensor's dtype {name_of(number)} has no counterpart in numpy") from None


def _concatenate(values: list[Array]) -> Array:
    if len(values) == 1:
        return values[0]
    return np.concatenate(values) if values else np.empty(0, np.uint64)


def decode_varints(data: memoryview) -> npt.NDArray[np.uint64]:
    """Decode a packed repeated field of varints; negative numbers are their 64-bit two's complement.

    Raises ValueError for a truncated number or one longer than 10 bytes.
    """
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(ends) == len(octets):
        return octets.astype(np.uint64)
    if octets[-1] >= 0x80:
        raise ValueError("protobuf message ends inside a number")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise ValueError("protobuf number is longer than 10 bytes")
    out = np.zeros(len(ends), np.uint64)
    for position in range(int(lengths.max())):
        has = lengths > position
        octet = (octets[starts[has] + position] & 0x7F).astype(np.uint64)
        out[has] |= octet << np.uint64(7 * position)
    return out


def _cast(flat: Array, number: int) -> Array:
    dtype = _dtype(number)
    return flat if flat.dtype == dtype else flat.astype(dtype)


def _half(flat: Array, number: int) -> Array:
    return flat if flat.dtype == np.float16 else flat.astype(np.uint16).view(np.float16)


def _bfloat16(flat: Array, number: int) -> Array:
    return (flat.astype(np.uint32) << np.uint32(16)).view(np.float32)


_CAST: dict[int, Callable[[Array, int], Array]] = {
    DT_HALF: _half,
    DT_BFLOAT16: _bfloat16,
}


def _strings(values: list[bytes], shape: tuple[int, ...]) -> Array:
    flat = np.empty(len(values), object)
    flat[:] = values
    return _shaped(flat, shape)


def _shaped(flat: Array, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    if len(flat) == size:
        return flat.reshape(shape)
    if len(flat) > size:
        raise ValueError(f"a tensor of shape {list(shape)} has {len(flat)} values")
    nothing = b"" if flat.dtype.hasobject else flat.dtype.type(0)
    filled = np.empty(size, flat.dtype)
    filled[: len(flat)] = flat
    filled[len(flat) :] = flat[-1] if len(flat) else nothing
    return filled.reshape(shape)
