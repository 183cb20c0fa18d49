"""Translates between gRPC's messages and the data plane, in the server's threads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError

from lightbox.base.errors import DeadlineExceeded, MalformedBody, TooLarge, Unavailable
from lightbox.base.request_context import Header, RequestContext
from lightbox.core.edge import Work
from lightbox.core.request import ByteStrings, TensorResponse
from lightbox.features.open_inference.classification import read_class_count
from lightbox.features.open_inference.dataplane import (
    MAX_NAMED,
    DataPlane,
    InferRequest,
    check_count,
    once,
    read_attributes,
)
from lightbox.features.open_inference.grpc.messages import ModelInferResponse, message_class
from lightbox.features.open_inference.tensors import (
    BYTES,
    bad_input,
    checked_shape,
    datatype_of,
    from_buffer,
    numeric_spec,
    split,
    to_blob,
)
from lightbox.model.casting import cast
from lightbox.model.spec import Array
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, read_fields

MAX_FIELDS = 16 * MAX_NAMED
"""Most fields of a message with its inputs and outputs; all numbers of a tensor are one field."""
_TENSORS = {"inputs", "outputs"}
_STRINGS = 8
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


class InferenceService:
    """Answers one message with another, or with a dict of its fields; errors are raised."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    def work(self, method: MethodDescriptor) -> Work:
        """Return the function that answers a method's serialized message with a serialized one."""
        request = message_class(method.input_type.full_name)
        response = message_class(method.output_type.full_name)
        function = getattr(self, _snake(method.name))

        def work(data: bytes, header: Header, context: RequestContext) -> bytes:
            with self._plane.pipeline.memory.share(context.turn.model) as context.memory:
                with context.stage("decode"):
                    message = _parsed(request, data, context)
                read_attributes(header)
                found = function(message, header, context)
                with context.stage("postprocess"):
                    return bytes((response(**found) if isinstance(found, dict) else found).SerializeToString())

        return work

    def model_ready(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Return whether a model can answer; an unknown one is an error."""
        try:
            return {"ready": self._plane.model_ready(request.name, request.version, context)}
        except (Unavailable, DeadlineExceeded):
            return {"ready": False}

    def model_metadata(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Describe a model's inputs and outputs."""
        return self._plane.model_metadata(request.name, request.version, context)

    def model_config(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Return a model's configuration."""
        return {"config": self._plane.model_config(request.name, request.version, context)}

    def model_statistics(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Return a model's counts and times."""
        return self._plane.model_statistics(request.name, request.version, context)

    def model_infer(self, request: Any, header: Header, context: RequestContext) -> Any:
        """Answer with the model's outputs."""
        with context.stage("decode"):
            asked = read_request(request)
        with self._plane.target(request.model_name, header, context) as model:
            response = self._plane.model_infer(asked, model, request.model_version, read_attributes(header), context)
        with context.stage("postprocess"):
            return write_response(response, asked)

    def repository_index(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """List the models."""
        return {"models": self._plane.repository_index(request.ready, context)}

    def repository_model_load(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Load a model in multi-model mode."""
        self._plane.repository_model_load(request.model_name, request.parameters, context)
        return {}

    def repository_model_unload(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Unload a model in multi-model mode."""
        self._plane.repository_model_unload(request.model_name, context)
        return {}


def _parsed(kind: Any, data: bytes, context: RequestContext) -> Any:
    def step(size: int) -> None:
        context.check()
        context.memory.hold(2 * len(data) + size, "the message")

    context.memory.weigh(len(data))
    step(0)
    try:
        count_message(data, kind, step)
        return kind.FromString(data)
    except (DecodeError, ValueError) as error:
        raise MalformedBody(f"the message is no {kind.DESCRIPTOR.full_name}: {error}") from None


def _snake(name: str) -> str:
    """Return ``model_infer`` for ``ModelInfer``."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).removeprefix("_")


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
        counts: Counter[int] = Counter()
        self.bytes += len(data)
        for number, wire_type, value in read_fields(data):
            counts[number] += 1
            self._left -= 1
            if self._left < 0:
                raise TooLarge(f"{kind.full_name}: expected at most {MAX_FIELDS} fields")
            field = kind.fields_by_number.get(number)
            if field is None or wire_type != LENGTH_DELIMITED:
                continue
            check_count(counts[number], field.name)
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
    name = tensor.name
    shape = checked_shape(name, list(tensor.shape))
    if tensor.datatype == BYTES:
        return ByteStrings(split(name, memoryview(data), math.prod(shape)), shape)
    return from_buffer(name, tensor.datatype, shape, data)


def _from_contents(tensor: Any) -> Array | ByteStrings:
    name, datatype = tensor.name, tensor.datatype
    shape = checked_shape(name, list(tensor.shape))
    if datatype not in _FIELD_OF:
        numeric_spec(name, datatype)
        raise bad_input(name, f"{datatype} has no typed contents; send raw_input_contents")
    field = _FIELD_OF[datatype]
    others = [found.name for found, _ in tensor.contents.ListFields() if found.name != field]
    if others:
        raise bad_input(name, f"{datatype} comes in {field}, got {', '.join(others)}")
    values = getattr(tensor.contents, field)
    if len(values) != math.prod(shape):
        raise bad_input(name, f"shape {list(shape)} holds {math.prod(shape)} values, got {len(values)} in {field}")
    if datatype == BYTES:
        return ByteStrings(list(values), shape)
    spec = numeric_spec(name, datatype)
    return cast(np.array(values, _WIDE.get(field, spec.dtype)), spec).reshape(shape)


def _parameters(message: Any) -> dict[str, Any]:
    return {name: _value(parameter) for name, parameter in message.parameters.items()}


def _value(parameter: Any) -> Any:
    which = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, which) if which else None
