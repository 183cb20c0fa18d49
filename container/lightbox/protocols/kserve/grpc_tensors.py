"""Inference requests and answers as gRPC messages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lightbox.codecs.tensors import string_tensor
from lightbox.errors import InputMismatch, MalformedBody
from lightbox.model_spec import Array
from lightbox.protocols.kserve.bytes_elements import split
from lightbox.protocols.kserve.datatypes import BYTES, checked_shape, datatype_of, from_buffer, numeric_dtype
from lightbox.protocols.kserve.messages import ModelInferResponse
from lightbox.protocols.kserve.requests import InferRequest, once
from lightbox.protocols.kserve.rest_answers import blob
from lightbox.tensor_request import TensorAnswer

_FIELD_OF = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}


def read_request(message: Any) -> InferRequest:
    """Return the request of a ModelInferRequest. Raises MalformedBody and InputMismatch."""
    raw = message.raw_input_contents
    if raw and any(tensor.HasField("contents") for tensor in message.inputs):
        raise MalformedBody("inputs: expected either contents or raw_input_contents, got both")
    if raw and len(raw) != len(message.inputs):
        raise MalformedBody(
            f"raw_input_contents: expected one for each of {len(message.inputs)} inputs, got {len(raw)}"
        )
    once([tensor.name for tensor in message.inputs], "inputs")
    once([tensor.name for tensor in message.outputs], "outputs")
    return InferRequest(
        inputs={
            tensor.name: _from_raw(tensor, raw[index]) if raw else _from_contents(tensor)
            for index, tensor in enumerate(message.inputs)
        },
        outputs=tuple(output.name for output in message.outputs),
        id=message.id,
        parameters={name: _value(parameter) for name, parameter in message.parameters.items()},
    )


def write_answer(answer: TensorAnswer, request: InferRequest) -> Any:
    """Return a ModelInferResponse; tensors are raw, the one form that every client reads."""
    message = ModelInferResponse(
        model_name=answer.signature.model, model_version=str(answer.signature.version), id=request.id
    )
    for name, array in answer.outputs.items():
        message.outputs.add(name=name, datatype=datatype_of(array), shape=array.shape)
        message.raw_output_contents.append(blob(array))
    return message


def _from_raw(tensor: Any, data: bytes) -> Array:
    shape = checked_shape(tensor.name, list(tensor.shape))
    if tensor.datatype == BYTES:
        return string_tensor(split(tensor.name, memoryview(data), math.prod(shape))).reshape(shape)
    return from_buffer(tensor.name, tensor.datatype, shape, data)


def _from_contents(tensor: Any) -> Array:
    name, datatype = tensor.name, tensor.datatype
    shape = checked_shape(name, list(tensor.shape))
    if datatype not in _FIELD_OF:
        numeric_dtype(name, datatype)
        raise InputMismatch(f"input {name}: {datatype} has no typed contents; send raw_input_contents")
    field = _FIELD_OF[datatype]
    others = [found.name for found, _ in tensor.contents.ListFields() if found.name != field]
    if others:
        raise InputMismatch(f"input {name}: {datatype} comes in {field}, got {', '.join(others)}")
    values = getattr(tensor.contents, field)
    if len(values) != math.prod(shape):
        raise InputMismatch(
            f"input {name}: shape {list(shape)} holds {math.prod(shape)} values, got {len(values)} in {field}"
        )
    if datatype == BYTES:
        return string_tensor(values).reshape(shape)
    return _numbers(name, datatype, values).reshape(shape)


def _numbers(name: str, datatype: str, values: Any) -> Array:
    try:
        return np.array(values, numeric_dtype(name, datatype).newbyteorder("="))
    except OverflowError:
        raise InputMismatch(f"input {name}: a number is beyond the range of {datatype}") from None


def _value(parameter: Any) -> Any:
    which = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, which) if which else None
