"""JSON text to values: orjson parses it, and the standard library what it refuses, or finds the place of the error.

Two readers take text differently, as their callers always have:

| | ``load``: TensorFlow Serving's REST | ``load_all``: Lightbox's content types |
|---|---|---|
| several values | the first one; later text counts for nothing | all, on lines of their own or not |
| NaN, Infinity, -Infinity | numbers, and Inf | numbers |
| a name given twice | the first value; ``pairs`` has all | the last value |
| bytes that are not UTF-8 | lone surrogates ("surrogateescape") | an error, as for half of a surrogate pair |
| a byte order mark | skipped | the caller removes it |

Integers beyond 64 bits are floats. Numbers beyond a double, and very deep nesting, are errors.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import orjson

from lightbox.model_runtime.wire.status import Code, StatusError, invalid

PARSE_ERROR = "JSON Parse error: "
"""The beginning of every error of the text, as in TensorFlow Serving."""
MAX_VALUES = 1_000_000
"""Most values one after another; each is an object in memory, unlike the numbers of a list."""
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING_OR_INF = re.compile(r'"(?:[^"\\]|\\.)*+"?|Inf(?![a-z])', re.DOTALL)
_LONE_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
_NUMBERS = frozenset({int, float})
_LONGEST_INT = 20
"""Characters of the longest 64-bit integer."""
_SHOWN = 40
"""Most characters of a value in an error."""


class Members(dict[str, Any]):
    """An object; the first value of a repeated name counts, and ``pairs`` has all of them."""

    def __init__(self, found: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.pairs = found
        for name, value in found:
            self.setdefault(name, value)


def pairs(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return all members of an object in the order of the text."""
    return value.pairs if isinstance(value, Members) else list(value.items())


def load(body: bytes | bytearray) -> Any:
    """Return the first document in ``body``; StatusError "JSON Parse error: ... at offset: N" if it is malformed."""
    try:
        document = orjson.loads(body)
        # Otherwise it has an escaped quote, or a repeated name that orjson has dropped.
        if body.count(b'"') == 2 * _count_strings(document):
            return document
    except orjson.JSONDecodeError:
        pass
    if not body:
        raise invalid(f"{PARSE_ERROR}The document is empty")
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lone = _LONE_SURROGATE.search(text) if "\\u" in text else None
    if lone is not None:
        _refuse("The surrogate pair in string is invalid", text[: lone.start()])
    if "Inf" in text:
        text = _STRING_OR_INF.sub(lambda found: "Infinity" if found[0] == "Inf" else found[0], text)
    return _decoded(_FIRST, text, _after_space(text, 0))[0]


def load_all(text: bytes) -> list[Any]:
    """Return the values one after another in ``text``; StatusError if it is malformed, or has too many."""
    if not text.strip():
        raise invalid(f"{PARSE_ERROR}the body is empty")
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        pass
    if text.count(b"\n") > MAX_VALUES:
        raise _too_many()
    try:
        return [orjson.loads(line) for line in text.split(b"\n") if line.strip()]
    except orjson.JSONDecodeError:
        pass
    try:
        return _scanned(text.decode())
    except (UnicodeError, RecursionError) as error:
        raise invalid(f"{PARSE_ERROR}{error}") from None


def _scanned(text: str) -> list[Any]:
    values: list[Any] = []
    at = _after_space(text, 0)
    while at < len(text):
        value, end = _decoded(_LAST, text, at)
        values.append(value)
        if len(values) > MAX_VALUES:
            raise _too_many()
        at = _after_space(text, end)
        # "1-2" is not two numbers; brackets and quotes need no space between them.
        if at == end < len(text) and text[end - 1] not in '}]"' and text[end] not in '{["':
            _refuse("Expecting white space between two values", text[:end])
    if "\\u" in text:
        json.dumps(values, ensure_ascii=False).encode()  # half of a surrogate pair cannot be sent or quoted
    return values


def _too_many() -> StatusError:
    what = f"the JSON has more than {MAX_VALUES:,} values or lines one after another; send a list"
    return StatusError(Code.RESOURCE_EXHAUSTED, what)


def _count_strings(document: Any) -> int:
    """Return a lower bound of the names and strings: a list that begins with a number counts as numbers."""
    count, pending = 0, [document]
    while pending:
        value = pending.pop()
        kind = type(value)
        if kind is str:
            count += 1
        elif kind is dict:
            count += len(value)
            if not _NUMBERS.issuperset(map(type, value.values())):
                pending.extend(value.values())
        elif kind is list and value:
            first = value[0]
            while type(first) is list and first:
                first = first[0]
            if type(first) is str or type(first) is dict:
                pending.extend(value)
    return count


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _decoded(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at ``at``, and where it ends."""
    try:
        return decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        _refuse(error.msg, text[: error.pos])
    except RecursionError:
        raise invalid(f"{PARSE_ERROR}The values are nested too deep. at offset: 0") from None
    except OverflowError as error:
        _refuse("Number too big to be stored in double", text[: text.find(str(error), at)])


def _refuse(what: str, before: str) -> NoReturn:
    offset = len(before.encode("utf-8", "surrogateescape"))
    raise invalid(f"{PARSE_ERROR}{what}. at offset: {offset}") from None


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise OverflowError(text)
    return value


def _number(text: str) -> int | float:
    value = int(text) if len(text) <= _LONGEST_INT else None
    return value if value is not None and -(1 << 63) <= value < 1 << 64 else _double(text)


_LAST = json.JSONDecoder(parse_float=_double, parse_int=_number)
_FIRST = json.JSONDecoder(parse_float=_double, parse_int=_number, object_pairs_hook=Members)


def shown(value: Any) -> str:
    """Return a value as an error shows it: a list or an object by its kind, another by its text, shortened."""
    if value is not None and not isinstance(value, str | int | float):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
