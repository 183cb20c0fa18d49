"""Bodies of REST inference requests: JSON, and behind it the blobs of the binary tensor extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightbox.codecs.json_numbers import MIN_BYTES, hollowed
from lightbox.codecs.json_values import parse_values, parsing_bytes
from lightbox.codecs.tensors import string_tensor
from lightbox.errors import InputMismatch, MalformedBody, TooLarge
from lightbox.model_spec import Array
from lightbox.protocols.kserve import bytes_elements
from lightbox.protocols.kserve.datatypes import BYTES, checked_shape, from_buffer
from lightbox.protocols.kserve.json_data import read_data
from lightbox.protocols.kserve.requests import InferRequest, check_count, once
from lightbox.telemetry.clock import RequestClock

_ELEMENT_BYTES = 80
_OBJECTS = 'a JSON object with "inputs"'


def parse_body(body: bytes, header_length: int | None, clock: RequestClock) -> InferRequest:
    """Return the request in ``body``; ``header_length`` is the length of its JSON, None when all of it is JSON.

    Raises MalformedBody and InputMismatch, DeadlineExceeded and what ``Share.hold`` raises.
    """
    end = len(body) if header_length is None else header_length
    text, blobs = (body, memoryview(b"")) if end == len(body) else (body[:end], memoryview(body)[end:])
    found = _numbers(text, blobs, len(body), clock) if end >= MIN_BYTES else None
    if found is None:
        clock.memory.hold(2 * len(body) + parsing_bytes(text), "the JSON")
        found = _request(text, _Blobs(blobs, len(body), clock))
        clock.check()
    return found


def _numbers(text: bytes, blobs: memoryview, size: int, clock: RequestClock) -> InferRequest | None:
    """Read the text if its long lists are arrays of numbers: then no object is made for each of them."""
    clock.memory.hold(2 * size + len(text) + max(2 * len(text), 8 * text.count(b",")), "the JSON")
    hollow = hollowed(text, clock.check)
    if hollow is None:
        return None
    try:
        found = _request(hollow.text, _Blobs(blobs, size, clock), hollow.filled)
    except (MalformedBody, InputMismatch, TooLarge):
        return None
    return found if hollow.all_used else None


def _request(text: bytes, reader: _Blobs, filled: Callable[[Any], Any] = lambda value: value) -> InferRequest:
    document = _document(text)
    inputs, outputs = _objects(document, "inputs", required=True), _objects(document, "outputs")
    arrays = {entry["name"]: _input(entry, reader, entry is inputs[-1], filled) for entry in inputs}
    reader.check_end()
    parameters = _parameters(document)
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
    )


class _Blobs:
    """The bytes behind the JSON, taken from the front in the order of the inputs."""

    def __init__(self, data: memoryview, body: int, clock: RequestClock) -> None:
        self._data = data
        self._body = body
        self._clock = clock
        self._elements = 0

    def hold(self, elements: int) -> None:
        """Hold the memory of so many byte strings more; each has its length in front of it."""
        self._elements += min(elements, len(self._data) // 4)
        self._clock.memory.hold(2 * self._body + _ELEMENT_BYTES * self._elements, "the elements")

    def take(self, name: str, size: int) -> memoryview:
        if size > len(self._data):
            raise MalformedBody(
                f"input {name}: binary_data_size is {size} bytes, the body has {len(self._data)} bytes left"
            )
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def rest(self) -> memoryview:
        return self.take("", len(self._data))

    def __len__(self) -> int:
        return len(self._data)

    def check_end(self) -> None:
        if len(self._data):
            raise MalformedBody(f"{len(self._data)} bytes are left over behind the last input's data")


def _input(entry: dict[str, Any], blobs: _Blobs, last: bool, filled: Callable[[Any], Any]) -> Array:
    name, datatype = entry["name"], _text(entry, "datatype")
    shape = checked_shape(name, entry.get("shape"))
    parameters = _parameters(entry)
    has_size = "binary_data_size" in parameters
    if has_size and "data" in entry:
        raise MalformedBody(f"input {name}: expected either data or binary_data_size, got both")
    if "data" in entry:
        return read_data(name, datatype, shape, filled(entry["data"]))
    if not has_size and not (datatype == BYTES and last and len(blobs)):
        raise MalformedBody(f"input {name}: expected either data or binary_data_size, got neither")
    if datatype == BYTES:
        elements = _elements(name, _count(shape), parameters.get("binary_data_size"), blobs)
        return string_tensor(elements).reshape(shape)
    return from_buffer(name, datatype, shape, blobs.take(name, _size(name, parameters["binary_data_size"])))


def _elements(name: str, count: int, size: Any, blobs: _Blobs) -> list[bytes]:
    blobs.hold(count)
    if isinstance(size, str):
        sizes = bytes_elements.parse_sizes(name, size)
        return bytes_elements.split_bare(name, blobs.take(name, sum(sizes)), sizes, count)
    data = blobs.rest() if size is None else blobs.take(name, _size(name, size))
    return bytes_elements.split(name, data, count)


def _size(name: str, size: Any) -> int:
    if isinstance(size, str):
        sizes = bytes_elements.parse_sizes(name, size)
        return sum(sizes)
    if type(size) is not int or size < 0:
        raise MalformedBody(f"input {name}: binary_data_size: expected a number of bytes, got {str(size)[:40]!r}")
    return size


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _document(text: bytes) -> dict[str, Any]:
    values = parse_values(text)
    if len(values) != 1 or not isinstance(values[0], dict):
        raise MalformedBody(f"the body: expected {_OBJECTS}")
    return _without_nulls(values[0])


def _without_nulls(found: dict[str, Any]) -> dict[str, Any]:
    """Some clients write every field, null for those that were not set."""
    return {key: value for key, value in found.items() if value is not None}


def _objects(document: dict[str, Any], key: str, required: bool = False) -> list[dict[str, Any]]:
    found = document.get(key, [])
    check_count(len(found) if isinstance(found, list) else 0, key)
    if not isinstance(found, list) or not all(isinstance(e, dict) and isinstance(e.get("name"), str) for e in found):
        raise MalformedBody(f"{key}: expected a list of objects, each with a name")
    if required and not found:
        raise MalformedBody(f"{key}: expected at least one; the body is {_OBJECTS}")
    once((entry["name"] for entry in found), key)
    return [_without_nulls(entry) for entry in found]


def _parameters(entry: dict[str, Any]) -> dict[str, Any]:
    found = entry.get("parameters", {})
    if not isinstance(found, dict):
        raise MalformedBody("parameters: expected an object")
    check_count(len(found), "parameters")
    return _without_nulls(found)


def _flag(parameters: dict[str, Any], key: str) -> bool | None:
    found = parameters.get(key)
    if found is not None and not isinstance(found, bool):
        raise MalformedBody(f"{key}: expected true or false, got {str(found)[:40]!r}")
    return found


def _text(entry: dict[str, Any], key: str) -> str:
    found = entry.get(key, "")
    if not isinstance(found, str):
        raise MalformedBody(f"{key}: expected a string, got {str(found)[:40]!r}")
    return found
