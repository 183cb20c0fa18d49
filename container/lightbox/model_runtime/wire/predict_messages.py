"""Writes PredictRequests and reads PredictResponses without a copy or a Python loop over the numbers.

protobuf's messages carry everything except the numbers. Requests: the array's bytes are appended as
``TensorProto.tensor_content``; a serialized message may be written in pieces, so the large field need not pass through
a message object. Responses: the fields are parsed one by one, and float arrays are views of the received bytes, as a
packed repeated field and a bytes field have the same encoding
(https://protobuf.dev/programming-guides/encoding/#packed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lightbox.model_runtime.wire import tensor_proto
from lightbox.model_runtime.wire.messages import predict_pb2
from lightbox.model_runtime.wire.protobuf import Fragments, read_fields

Array = npt.NDArray[np.generic]
Pieces = Sequence[bytes | memoryview]
"""A message in pieces, sent one after another."""

_INPUTS = predict_pb2.PredictRequest.INPUTS_FIELD_NUMBER
_OUTPUTS = predict_pb2.PredictResponse.OUTPUTS_FIELD_NUMBER


def predict_request_pieces(
    model: str,
    signature: str,
    inputs: Mapping[str, Array],
    version: int | None = None,
    output_filter: Sequence[str] = (),
) -> Fragments:
    """Return the pieces of a serialized PredictRequest; large tensors are not copied.

    ``inputs`` are arrays of any shape; string tensors are object arrays of bytes. Numbers are ``tensor_content``,
    little-endian and row-major. Raises ValueError for a dtype without a counterpart in TensorFlow.
    """
    try:
        tensors = {name: tensor_proto.encode(array, array.dtype.kind not in "SUO") for name, array in inputs.items()}
    except KeyError as error:
        raise ValueError(f"TensorFlow has no dtype {error.args[0]}") from None
    return [_head(model, signature, version, tuple(output_filter)), *tensor_proto.entries(_INPUTS, tensors)]


@lru_cache(maxsize=256)
def _head(model: str, signature: str, version: int | None, output_filter: tuple[str, ...]) -> bytes:
    request = predict_pb2.PredictRequest(output_filter=output_filter)
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    return bytes(request.SerializeToString())


def read_predict_response(data: bytes | memoryview) -> dict[str, Array]:
    """Return the outputs of a serialized PredictResponse by name.

    Float arrays are read-only views of ``data``. bfloat16 is widened to float32; string tensors are object arrays of
    bytes. Raises ValueError for malformed bytes.
    """
    outputs: dict[str, Array] = {}
    for number, _, value in read_fields(memoryview(data)):
        if number == _OUTPUTS:
            name, tensor = _map_entry(value)
            outputs[name] = tensor_proto.read(tensor)
    return outputs


def _map_entry(entry: memoryview) -> tuple[str, memoryview]:
    key, message = "", memoryview(b"")
    for number, _, value in read_fields(entry):
        if number == 1:
            key = str(value, "utf-8")
        elif number == 2:
            message = value
    return key, message
