"""Bodies of REST inference requests: JSON, followed by the blobs of the binary tensor extension."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any

from lightbox.base.error_texts import echo, shown
from lightbox.base.errors import InputMismatch, MalformedBody, TooLarge
from lightbox.base.request_context import RequestContext
from lightbox.codecs.json_parsing import parse_around_lists, parse_values
from lightbox.core.request import ByteStrings, FindSignature
from lightbox.features.open_inference.classification import read_class_count
from lightbox.features.open_inference.dataplane import InferRequest, check_count, once
from lightbox.features.open_inference.tensors import (
    BYTES,
    checked_shape,
    described,
    from_buffer,
    numeric_spec,
    parse_sizes,
    read_data,
    split,
    split_bare,
)
from lightbox.images.decode import is_image
from lightbox.model.casting import numpy_dtype
from lightbox.model.spec import Array, SignatureSpec, TensorSpec
from lightbox.model_runtime.wire.rest.base64_value import decode_base64
from lightbox.model_runtime.wire.rest.number_lists import parsing_bytes
from lightbox.model_runtime.wire.status import StatusError

_ELEMENT_BYTES = 80
_KEYS = ("name", "datatype", "shape", "data")
"""The fields of an input in a request of JSON alone."""
_CONTENT = "content_type"
"""The parameter, of an input or of the request, in which MLServer's clients say that texts are base64."""
_OBJECT = re.compile(rb"\s*\{")
_ROWS = re.compile(rb'\s*\{\s*"(?:instances|signature_name)"')
"""The beginnings of TensorFlow Serving's requests, to avoid a search in the whole body."""
_OBJECTS = 'a JSON object with "inputs"'


def parse_body(body: bytes, header_length: int | None, context: RequestContext) -> InferRequest:
    """Return the request in ``body``; ``header_length`` is the length of its JSON, None when all of it is JSON.

    Raises MalformedBody and InputMismatch, DeadlineExceeded and as ``Share.hold``.
    """
    end = len(body) if header_length is None else header_length
    text, blobs = (body, memoryview(b"")) if end == len(body) else (body[:end], memoryview(body)[end:])
    partial = parse_around_lists(text, context, len(body))
    if partial is not None:  # without an object for each number of its long lists
        with suppress(MalformedBody, InputMismatch, TooLarge):
            request = _request(partial.values, _Blobs(blobs, len(body), context))
            if partial.all_used:
                return request
    context.memory.hold(2 * len(body) + parsing_bytes(text), "the JSON")
    request = _request(parse_values(text), _Blobs(blobs, len(body), context))
    context.check()
    return request


def is_request(body: bytes, context: RequestContext) -> bool:
    """Return whether a body is a JSON request: its inputs are objects with a name, datatype, shape and data.

    No such list is an input of TensorFlow Serving's form. Raises as ``parse_body``, except for a body of another form.
    """
    if _ROWS.match(body) or not (_OBJECT.match(body) and all(b'"%s"' % key.encode() in body for key in _KEYS)):
        return False
    with suppress(MalformedBody):
        partial = parse_around_lists(body, context)
        if partial is None:
            context.memory.hold(len(body) + parsing_bytes(body), "the JSON")
        found = parse_values(body) if partial is None else partial.values
        document = found[0] if isinstance(found, list) and len(found) == 1 else None
        inputs = document.get("inputs") if isinstance(document, dict) else None
        return isinstance(inputs, list) and bool(inputs) and all(map(_is_tensor, inputs))
    return False


def _is_tensor(entry: Any) -> bool:
    return isinstance(entry, dict) and all(key in entry for key in _KEYS)


def _request(values: Any, reader: _Blobs) -> InferRequest:
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], dict):
        raise MalformedBody(f"the body: expected {_OBJECTS}")
    document = _without_nulls(values[0])
    inputs, outputs = _objects(document, "inputs", required=True), _objects(document, "outputs")
    parameters = _parameters(document)
    content = parameters.get(_CONTENT)
    arrays = {entry["name"]: _input(entry, reader, entry is inputs[-1], content) for entry in inputs}
    reader.check_end()
    return InferRequest(
        inputs=arrays,
        outputs=tuple(entry["name"] for entry in outputs),
        id=_text(document, "id"),
        parameters=parameters,
        binary={
            entry["name"]: wanted
            for entry in outputs
            if (wanted := _flag(_parameters(entry), "binary_data")) is not None
        },
        binary_default=bool(_flag(parameters, "binary_data_output")),
        classes={
            entry["name"]: count
            for entry in outputs
            if (count := read_class_count(entry["name"], _parameters(entry))) is not None
        },
    )


class _Blobs:
    """The bytes after the JSON, consumed in the order of the inputs."""

    def __init__(self, data: memoryview, body: int, context: RequestContext) -> None:
        self._data = data
        self._body = body
        self._context = context
        self._elements = 0

    def hold(self, elements: int) -> None:
        """Reserve the memory of this many further byte strings; each follows its length."""
        self._elements += min(elements, len(self._data) // 4)
        self._context.memory.hold(2 * self._body + _ELEMENT_BYTES * self._elements, "the elements")

    def take(self, name: str, size: int) -> memoryview:
        if size > len(self._data):
            raise MalformedBody(
                f"input {echo(name)}: binary_data_size is {size} bytes, the body has {len(self._data)} bytes left"
            )
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def rest(self) -> memoryview:
        return self.take("", len(self._data))

    def __len__(self) -> int:
        return len(self._data)

    def check_end(self) -> None:
        if len(self._data):
            raise MalformedBody(f"{len(self._data)} bytes are left over after the last input's data")


def _input(entry: dict[str, Any], blobs: _Blobs, last: bool, content: Any) -> Array | ByteStrings:
    name, datatype = entry["name"], _text(entry, "datatype")
    shape = checked_shape(name, entry.get("shape"))
    parameters = _parameters(entry)
    has_size = "binary_data_size" in parameters
    if has_size and "data" in entry:
        raise MalformedBody(f"input {echo(name)}: expected either data or binary_data_size, got both")
    if "data" in entry:
        found = read_data(name, datatype, shape, entry["data"])
        is_base64 = parameters.get(_CONTENT, content) == "base64"
        return _decoded(name, found) if is_base64 and isinstance(found, ByteStrings) else found
    if not has_size and not (datatype == BYTES and last and len(blobs)):
        raise MalformedBody(f"input {echo(name)}: expected either data or binary_data_size, got neither")
    if datatype == BYTES:
        elements = _elements(name, math.prod(shape), parameters.get("binary_data_size"), blobs)
        return ByteStrings(elements, shape)
    return from_buffer(name, datatype, shape, blobs.take(name, _size(name, parameters["binary_data_size"])))


def _decoded(name: str, texts: ByteStrings) -> ByteStrings:
    """Return the bytes of base64, as MLServer's clients send them; raise MalformedBody for other text."""
    try:
        return ByteStrings([decode_base64({"b64": text.decode()}) for text in texts.elements], texts.shape)
    except StatusError:
        raise MalformedBody(f"input {echo(name)}: content_type is base64, but an element is not valid base64") from None


def _elements(name: str, count: int, size: Any, blobs: _Blobs) -> list[bytes]:
    blobs.hold(count)
    if isinstance(size, str):
        sizes = parse_sizes(name, size)
        return split_bare(name, blobs.take(name, sum(sizes)), sizes, count)
    data = blobs.rest() if size is None else blobs.take(name, _size(name, size))
    return split(name, data, count)


def _size(name: str, size: Any) -> int:
    if isinstance(size, str):
        return sum(parse_sizes(name, size))
    if type(size) is not int or size < 0:
        raise MalformedBody(
            f"input {echo(name)}: binary_data_size: expected a number of bytes, got {shown(size, 40)!r}"
        )
    return size


def _without_nulls(found: dict[str, Any]) -> dict[str, Any]:
    """Drop fields that are null: some clients write every field."""
    return {key: value for key, value in found.items() if value is not None}


def _objects(document: dict[str, Any], key: str, required: bool = False) -> list[dict[str, Any]]:
    entries = document.get(key, [])
    check_count(len(entries) if isinstance(entries, list) else 0, key)
    if not isinstance(entries, list) or not all(
        isinstance(e, dict) and isinstance(e.get("name"), str) for e in entries
    ):
        raise MalformedBody(f"{key}: expected a list of objects, each with a name")
    if required and not entries:
        raise MalformedBody(f"{key}: expected at least one; the body is {_OBJECTS}")
    once((entry["name"] for entry in entries), key)
    return [_without_nulls(entry) for entry in entries]


def _parameters(entry: dict[str, Any]) -> dict[str, Any]:
    found = entry.get("parameters", {})
    if not isinstance(found, dict):
        raise MalformedBody("parameters: expected an object")
    check_count(len(found), "parameters")
    return _without_nulls(found)


def _flag(parameters: dict[str, Any], key: str) -> bool | None:
    found = parameters.get(key)
    if found is not None and not isinstance(found, bool):
        raise MalformedBody(f"{key}: expected true or false, got {shown(found, 40)!r}")
    return found


def _text(entry: dict[str, Any], key: str) -> str:
    found = entry.get(key, "")
    if not isinstance(found, str):
        raise MalformedBody(f"{key}: expected a string, got {shown(found, 40)!r}")
    return found


def read_body(
    body: bytes, header: tuple[str, str | None], find: FindSignature, context: RequestContext
) -> InferRequest:
    """Return a body's request; ``header`` has the name and value of the header with the length of its JSON.

    Without a length all of the body is JSON; with a length of 0 it is the one input of the signature that ``find``
    returns. Raises MalformedBody, InputMismatch, and as ``find`` does.
    """
    name, text = header
    context.memory.weigh(len(body))
    if text is not None and not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise MalformedBody(f"{name}: expected the length of the JSON in bytes, got {text[:40]!r}")
    length = None if text is None else int(text)
    if length == 0:
        return raw_request(body, find())
    if length is not None and length > len(body):
        raise MalformedBody(f"{name}: the JSON should have {length} bytes, the body has {len(body)}")
    with context.stage("decode"):
        return parse_body(body, length, context)


def raw_request(body: bytes, signature: SignatureSpec) -> InferRequest:
    """Return the request of a body that is only one input's data, as a JSON length of 0 says."""
    if len(signature.inputs) != 1:
        raise InputMismatch(
            f"a body without JSON is one input; the model {signature.model!r} takes "
            f"{', '.join(map(str, signature.inputs.values()))}"
        )
    ((name, spec),) = signature.inputs.items()
    if spec.is_string or (signature.image and is_image(body)):
        rank = len(spec.shape) if spec.is_string and spec.shape is not None else 1
        return InferRequest({name: ByteStrings([body], (1,) * rank)}, binary_default=True)
    return InferRequest({name: _raw_numbers(spec, body)}, binary_default=True)


def _raw_numbers(spec: TensorSpec, body: bytes) -> Array:
    """Return the numbers of a body; its size determines the one open dimension of the signature."""
    datatype = described(spec)["datatype"]
    size = numpy_dtype(numeric_spec(spec.name, datatype)).itemsize
    shape = spec.shape
    if shape is None or shape.count(None) > 1:
        raise InputMismatch(
            f"input {spec.name}: a body without JSON needs a signature with at most one open dimension, got {spec}"
        )
    for known in shape:
        size *= 1 if known is None else known
    count = len(body) // size if size else 0
    return from_buffer(spec.name, datatype, tuple(count if n is None else n for n in shape), body)
