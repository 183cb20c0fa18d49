"""The gRPC messages, from descriptors written by ``make protos``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import message_factory
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from lightbox.base.error_texts import echo
from lightbox.base.errors import InputMismatch, MalformedBody, TooLarge
from lightbox.core.request import ByteStrings, TensorResponse
from lightbox.features.open_inference.classification import read_class_count
from lightbox.features.open_inference.dataplane import MAX_NAMED, InferRequest, check_count, once
from lightbox.features.open_inference.tensors import (
    BYTES,
    checked_shape,
    datatype_of,
    from_buffer,
    numeric_spec,
    split,
    to_blob,
)
from lightbox.model.casting import cast
from lightbox.model.spec import Array
from lightbox.model_runtime.wire.descriptors import read_pool
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, read_fields

INFERENCE_SERVICE = "inference.GRPCInferenceService"
HEALTH_SERVICE = "grpc.health.v1.Health"
REFLECTION_SERVICE = "grpc.reflection.v1.ServerReflection"

_POOL = read_pool(Path(__file__).with_name("descriptors.binpb"))
MAX_FIELDS = 16 * MAX_NAMED
"""Most fields of a message with its inputs and outputs; all numbers of a tensor are one field."""
_TENSORS = {"inputs", "outputs"}
_BOOLS, _STRINGS = 1, 8
_PER_NUMBER = {2: 12, 3: 24, 4: 12, 5: 24}
"""Bytes of a number, by its field of InferTensorContents, in protobuf's object and as an array's element."""
_PER_STRING = 104
_AT_ONCE = 1 << 12
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
_WIDE = {"int_contents": "int32", "uint_contents": "uint32"}
"""Dtypes of fields that also carry smaller ones."""


def message_class(name: str) -> Any:
    """Return the class of a message by its full name; KeyError for an unknown one."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


def methods_of(service: str) -> list[MethodDescriptor]:
    """Return the methods of a service by its full name."""
    return list(_POOL.FindServiceByName(service).methods)


def method(service: str, name: str) -> MethodDescriptor:
    """Return a method of a service."""
    return _POOL.FindServiceByName(service).methods_by_name[name]


def file_named(name: str) -> FileDescriptor:
    """Return a file by its name; KeyError for an unknown one."""
    return _POOL.FindFileByName(name)


def file_with(symbol: str) -> FileDescriptor:
    """Return the file that defines a service, method or message; KeyError for an unknown one."""
    return _POOL.FindFileContainingSymbol(symbol)


ModelInferResponse = message_class("inference.ModelInferResponse")
ModelStreamInferResponse = message_class("inference.ModelStreamInferResponse")


def count_message(data: bytes, kind: Any, step: Callable[[int], None]) -> None:
    """Call ``step`` repeatedly with the bytes of memory that a message will take beside itself; it may raise.

    Raises TooLarge for too many inputs, outputs or parameters, and ValueError for a malformed message. Reads at most
    MAX_FIELDS fields, whatever the size, and each string of a tensor.
    """
    count = _Count(step)
    count.message(memoryview(data), kind.DESCRIPTOR)
    step(count.bytes)


class _Count:
    def __init__(self, step: Callable[[int], None]) -> None:
        self.bytes = 0
        self._left = MAX_FIELDS
        self._step = step

    def message(self, data: memoryview, kind: Any) -> None:
        found: Counter[int] = Counter()
        self.bytes += len(data)
        for number, wire_type, value in read_fields(data):
            found[number] += 1
            self._left -= 1
            if self._left < 0:
                raise TooLarge(f"{kind.full_name}: expected at most {MAX_FIELDS} fields")
            field = kind.fields_by_number.get(number)
            if field is None or wire_type != LENGTH_DELIMITED:
                continue
            check_count(found[number], field.name)
            if field.name in _TENSORS:
                self.message(value, field.message_type)
            elif field.name == "contents":
                self._contents(value)

    def _contents(self, data: memoryview) -> None:
        for index, (number, wire_type, value) in enumerate(read_fields(data)):
            if index % _AT_ONCE == 0:
                self._step(self.bytes)
            if number == _STRINGS:
                self.bytes += _PER_STRING + 2 * len(value)
            elif number in _PER_NUMBER:
                last_bytes = np.count_nonzero(np.frombuffer(value, np.uint8) < 128)
                self.bytes += _PER_NUMBER[number] * int(last_bytes if wire_type == LENGTH_DELIMITED else 1)
            else:
                self.bytes += 3 * len(value)


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
        parameters=_parameters(message),
        classes={
            output.name: count
            for output in message.outputs
            if (count := read_class_count(output.name, _parameters(output))) is not None
        },
    )


def write_response(response: TensorResponse, request: InferRequest) -> Any:
    """Return a ModelInferResponse; tensors are raw, the form that every client reads."""
    message = ModelInferResponse(
        model_name=response.signature.model, model_version=str(response.signature.version), id=request.id
    )
    for name, array in response.outputs.items():
        message.outputs.add(name=name, datatype=datatype_of(array), shape=array.shape)
        message.raw_output_contents.append(to_blob(array))
    return message


def _from_raw(tensor: Any, data: bytes) -> Array | ByteStrings:
    name = echo(tensor.name)
    shape = checked_shape(name, list(tensor.shape))
    if tensor.datatype == BYTES:
        return ByteStrings(split(name, memoryview(data), math.prod(shape)), shape)
    return from_buffer(name, tensor.datatype, shape, data)


def _from_contents(tensor: Any) -> Array | ByteStrings:
    name, datatype = echo(tensor.name), tensor.datatype
    shape = checked_shape(name, list(tensor.shape))
    if datatype not in _FIELD_OF:
        numeric_spec(name, datatype)
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
        return ByteStrings(list(values), shape)
    spec = numeric_spec(name, datatype)
    return cast(np.array(values, _WIDE.get(field, spec.dtype)), spec).reshape(shape)


def _parameters(message: Any) -> dict[str, Any]:
    return {name: _value(parameter) for name, parameter in message.parameters.items()}


def _value(parameter: Any) -> Any:
    which = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, which) if which else None
