"""Parse JSON to values, one or many; and long lists of numbers without a Python object for each.

The long lists are taken out of the text first, so that the parser gets only names and a few small values. As Python
objects a list of one-digit numbers takes 15 times its text, and rows by name 30 times; as an array it takes 2 to 4.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import orjson

from lightbox.base.errors import MalformedBody, TooLarge
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import Array
from lightbox.model_runtime.wire.rest import flat, quick

Step = Callable[[], None]
"""Called repeatedly by slow steps; it may raise."""
_SPACE = re.compile(r"[ \t\n\r]*")
MAX_VALUES = 1_000_000
"""Most values one after another; each is an object in memory, unlike the numbers of a list."""
_RARE = 64
"""Up to here, one search for each occurrence is faster than one count of all."""
_LONGEST_INT = 20
"""Characters of the longest 64-bit integer; longer numbers are read as floats."""


def parsing_bytes(text: bytes) -> int:
    """Return the most memory that parsing a text and making arrays of it takes, by its structure.

    Measured with orjson: 16 bytes for each value during parsing, 8 for its place in a list, 24 for a float, 72 for a
    list and 184 for an object; arrays are made from flat lists. Python's own parser takes no more.
    """
    return (
        4 * len(text)
        + 48 * _count(text, b",")
        + 88 * _count(text, b"[")
        + 200 * _count(text, b"{")
        + 60 * _count(text, b'"')
        + 32 * _count(text, b"\n")
    )


def _count(text: bytes, character: bytes) -> int:
    """Return ``text.count(character)``; for rare characters, as in an image's base64, in a tenth of the time."""
    found, at = 0, text.find(character)
    while at >= 0 and found < _RARE:
        found, at = found + 1, text.find(character, at + 1)
    return found if at < 0 else found + text.count(character, at)


def parse_values(text: bytes) -> list[Any]:
    """Return the JSON values in UTF-8 ``text``; NaN, Infinity and -Infinity are numbers.

    Raises MalformedBody for an empty body, for invalid JSON, for numbers beyond a double (1e400) and for too deep
    nesting, TooLarge for more than MAX_VALUES values one after another.
    """
    if not text.strip():
        raise MalformedBody("the body is empty; JSON was expected")
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        pass
    if text.count(b"\n") > MAX_VALUES:
        raise _too_many()
    lines = [line for line in text.split(b"\n") if line.strip()]
    try:
        return [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError:
        return _parse_tolerantly(text)


def _parse_tolerantly(text: bytes) -> list[Any]:
    """Parse the JSON that orjson refuses: several values on a line, one over several lines, NaN, Infinity."""
    try:
        return _scan(text.decode())
    except json.JSONDecodeError as error:
        raise MalformedBody(f"the JSON cannot be read: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise MalformedBody("the JSON is nested too deep") from None
    except ValueError as error:
        raise MalformedBody(f"the JSON cannot be read: {error}") from None


def _scan(text: str) -> list[Any]:
    values: list[Any] = []
    at = _skip_space(text, 0)
    while at < len(text):
        value, end = _DECODER.raw_decode(text, at)
        values.append(value)
        if len(values) > MAX_VALUES:
            raise _too_many()
        at = _skip_space(text, end)
        # "1-2" is not two numbers; brackets and quotes need no space between them.
        if at == end < len(text) and text[end - 1] not in '}]"' and text[end] not in '{["':
            raise json.JSONDecodeError("Expecting white space between two values", text, end)
    if "\\u" in text:
        _check_surrogates(values)
    return values


def _too_many() -> TooLarge:
    return TooLarge(f"the JSON has more than {MAX_VALUES:,} values or lines one after another; send a list")


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _check_surrogates(values: list[Any]) -> None:
    """Refuse half of a surrogate pair: it is not a character, and cannot be sent or quoted."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large for a double")
    return number


def _int(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_INT else _finite(text)


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_int)


_MIN_BYTES = 1 << 16
"""Shorter texts are parsed to values: that takes little memory and is as fast."""
_MIN_NUMBERS = 16
"""A text with fewer commas and lines has no long lists; most often it is an image in base64."""
_MIN_LIST = 1 << 12
_BLANKS = b" \t\r\n"
_OPENING, _BEFORE = ord("["), b"[" + _BLANKS
_NUMERIC = b"[]0123456789+-.eE," + _BLANKS
_IS_NUMERIC = bytes(octet in _NUMERIC for octet in range(256))
_MARK = "\0"
"""First character of the string that replaces a list; texts that contain it, escaped, are parsed whole."""
_PIECE = 1 << 16
_LONGEST = 16 * _PIECE
"""Longest piece of a list; lists without a place to cut are parsed to values."""
_ROWS = re.compile(rb"\[[ \t\r\n]*(?=\{)")


class NumberList:
    """A list of numbers, nested or flat, still as text; ``used`` after it has been read."""

    def __init__(self, text: memoryview, step: Step) -> None:
        self._text = text
        self._step = step
        self.used = False

    @property
    def depth(self) -> int:
        """Nesting depth of its first number."""
        return sum(octet == _OPENING for octet in takewhile(_BEFORE.__contains__, self._text))

    def array(self, number: int) -> Array | None:
        """Return an array of a dtype, given by TensorFlow's number; None if it must be parsed to values."""
        self.used = True
        return flat.array(self._text, number, self._step)


class RowList:
    """A list of objects, still as text; ``used`` after it has been read."""

    def __init__(self, text: bytes, step: Step) -> None:
        self._text = text
        self._step = step
        self.used = False

    def arrays(self, types: Mapping[str, int]) -> dict[str, Array] | None:
        """Return each input's array, by its dtype's number; None if the rows are not regular lists of numbers."""
        self.used = True
        parts: list[dict[str, Array]] = []
        for piece in self._pieces():
            self._step()
            try:
                rows = orjson.loads(b"[%b]" % piece)
            except orjson.JSONDecodeError:
                return None
            if not rows or not all(isinstance(row, dict) for row in rows):
                return None
            arrays = quick.regular(rows, True, types)
            if arrays is None:
                return None
            parts.append(arrays)
        if any(len({arrays[name].shape[1:] for arrays in parts}) != 1 for name in types):
            return None
        return {name: np.concatenate([arrays[name] for arrays in parts]) for name in types}

    def _pieces(self) -> Iterator[bytes]:
        at, end = 1, len(self._text) - 1
        while at <= end:  # a comma at the end leaves an empty piece
            cut = self._text.find(b"},", at + _PIECE, end) + 1 or end
            yield self._text[at:cut] if cut - at <= _LONGEST else b""
            at = cut + 1


class PartlyParsed(NamedTuple):
    """The values of a JSON text whose long ``lists`` are still text, among the values or as a whole."""

    values: list[Any] | NumberList | RowList
    lists: Sequence[NumberList | RowList]

    @property
    def all_used(self) -> bool:
        """Whether each list has been read; an unread one may be invalid JSON."""
        return all(found.used for found in self.lists)


def parse_around_lists(text: bytes, context: RequestContext, body_bytes: int | None = None) -> PartlyParsed | None:
    """Return a text's values without its long lists of numbers or objects; None if it has none, or is invalid.

    Holds the memory for parsing; ``body_bytes`` is the length of the body if the text is a part of it.
    """
    if len(text) < _MIN_BYTES or _count(text, b",") + _count(text, b"\n") < _MIN_NUMBERS or b"\\u0000" in text:
        return None
    body = 2 * (len(text) if body_bytes is None else body_bytes)
    held = body + len(text) + max(2 * len(text), 8 * text.count(b","))
    context.memory.hold(held, "the JSON")
    joined = _joined_lines(text)
    text = joined or text
    pieces: list[bytes | memoryview] = []
    lists: list[NumberList | RowList] = []
    view, at = memoryview(text), 0
    for start, end in _number_lists(text):
        pieces += [view[at:start], b'"\\u0000%d"' % len(lists)]
        lists.append(NumberList(view[start:end], context.check))
        at = end
    if not lists and (rows := _rows(text)) is not None:
        start, at = rows
        pieces = [view[:start], b'"\\u00000"']
        lists = [RowList(text[start:at], context.check)]
    if not lists:
        return None
    around = b"".join([*pieces, view[at:]])
    context.memory.hold(held + parsing_bytes(around), "the JSON")
    try:
        values = _filled(parse_values(around), lists)
        return PartlyParsed(values[0] if joined else values, lists)
    except (MalformedBody, RecursionError):
        return None


def _filled(value: Any, lists: Sequence[NumberList | RowList]) -> Any:
    """Return a value with the lists in place of their placeholder strings."""
    if isinstance(value, str):
        return lists[int(value[1:])] if value.startswith(_MARK) else value
    if isinstance(value, list):
        return [_filled(inner, lists) for inner in value]
    return {name: _filled(inner, lists) for name, inner in value.items()} if isinstance(value, dict) else value


def _joined_lines(text: bytes) -> bytes | None:
    """Return lines of numbers, of lists of numbers or of objects as one list; None for other lines."""
    inner = text.strip(_BLANKS)
    count = inner.count(b"\n")
    if not count:
        return None
    objects = count == inner.count(b"}\n{") == inner.count(b"{") - 1
    odd = (b"\n\n", b",\n", b"[\n", b"\n]")
    if not objects and (
        count >= MAX_VALUES or any(map(inner.__contains__, odd)) or next(_numeric_runs(inner), None) != (0, len(inner))
    ):
        return None
    return b"[%b]" % inner.replace(b"\n", b",")


def _has_bools(text: bytes) -> bool:
    """Return whether a text has true or false, which would pass for numbers."""
    return b"true" in text or b"false" in text


def _rows(text: bytes) -> tuple[int, int] | None:
    """Return where a list of objects begins and may end; reading it checks the rest."""
    found = _ROWS.search(text)
    if found is None or text.endswith(b"\\", 0, found.start()) or _has_bools(text):
        return None
    end = text.rfind(b"]") + 1
    return None if end < found.end() else (found.start(), end)


def _number_lists(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of numbers in brackets, without surrounding blanks and commas."""
    for start, end in _numeric_runs(text):
        opening, closing = text.find(b"[", start, end), text.rfind(b"]", start, end) + 1
        if opening < 0 or closing - opening < _MIN_LIST:
            continue
        before, after = text[start:opening].strip(_BLANKS), text[closing:end].strip(_BLANKS)
        # A quote after a backslash does not end a string.
        if not before and after in (b"", b",") and not text.endswith(b"\\", 0, opening):
            yield opening, closing


def _numeric_runs(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where a list may be: long runs of the characters of which lists of numbers consist."""
    start = 0
    for at in range(0, len(text), _MIN_LIST):
        kinds = text[at : at + _MIN_LIST].translate(_IS_NUMERIC)
        if (other := kinds.find(0)) < 0:
            continue
        if at + other - start >= _MIN_LIST:  # a run inside a block is always shorter
            yield start, at + other
        start = at + kinds.rfind(0) + 1
    if len(text) - start >= _MIN_LIST:
        yield start, len(text)
