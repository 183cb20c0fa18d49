"""JSON text to values, one or many; and long lists of numbers, which are read without an object for each.

The lists are taken out of the text first, so that a parser sees what is left: names and a few small values. A list of
one-digit numbers is 15 times its text as Python's objects, and 2 to 4 times as an array; rows by name are 30 times.
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

from lightbox.core.errors import MalformedBody, TooLarge
from lightbox.core.request_context import RequestContext
from lightbox.model.spec import Array
from lightbox.tfs_wire.rest import flat, quick

Step = Callable[[], None]
"""Called again and again by what may take long; it may raise."""
_SPACE = re.compile(r"[ \t\n\r]*")
MAX_VALUES = 1_000_000
"""Values one after another, each of which is an object in memory; a list of numbers costs far less."""
_RARE = 64
"""Up to here one search for each is faster than one count of all."""
_LONGEST_INT = 20
"""Characters of the longest 64-bit integer; longer ones are read as floats."""


def parsing_bytes(text: bytes) -> int:
    """Return how much memory it may take at most to parse a text and to make arrays of it, by its structure.

    Measured with orjson: 16 bytes for each value while it parses, 8 for its place in a list, 24 for a float, 72 for a
    list and 184 for an object; arrays are made by way of flat lists. Python's own parser needs no more.
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
    """Return ``text.count(character)``; of what is rare, as in an image's base64, in a tenth of the time."""
    found, at = 0, text.find(character)
    while at >= 0 and found < _RARE:
        found, at = found + 1, text.find(character, at + 1)
    return found if at < 0 else found + text.count(character, at)


def parse_values(text: bytes) -> list[Any]:
    """Return the JSON values in UTF-8 ``text``; NaN, Infinity and -Infinity are numbers.

    Raises MalformedBody for an empty body, for what is no JSON, for numbers beyond a double (1e400) and for
    nesting that is too deep to be a tensor, TooLarge for more than MAX_VALUES values one after another.
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
    """Read what orjson does not: several values on a line or one over several lines, NaN, Infinity."""
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
        # 1-2 is not two numbers; brackets and quotes need no space between them.
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
    """Half of a surrogate pair is no character: it could be neither sent nor told of in an answer."""
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
"""Shorter text is read as values: that is little memory, and as quick."""
_MIN_NUMBERS = 16
"""A text with fewer commas and lines has no long lists: it is an image in base64, most of the time."""
_MIN_LIST = 1 << 12
_BLANKS = b" \t\r\n"
_OPENING, _BEFORE = ord("["), b"[" + _BLANKS
_NUMERIC = b"[]0123456789+-.eE," + _BLANKS
_IS_NUMERIC = bytes(octet in _NUMERIC for octet in range(256))
_MARK = "\0"
"""Begins the string that stands for a list; a text with this character, written as an escape, is left alone."""
_PIECE = 1 << 16
_LONGEST = 16 * _PIECE
"""A piece that is longer, for want of a place to cut, is not read here."""
_ROWS = re.compile(rb"\[[ \t\r\n]*(?=\{)")


class NumberList:
    """A list of numbers, nested or flat, that is still text; ``used`` once it has been read."""

    def __init__(self, text: memoryview, step: Step) -> None:
        self._text = text
        self._step = step
        self.used = False

    @property
    def depth(self) -> int:
        """How deep its first number is nested."""
        return sum(octet == _OPENING for octet in takewhile(_BEFORE.__contains__, self._text))

    def array(self, number: int) -> Array | None:
        """Return it as an array of a dtype, by TensorFlow's number; None where it must be read as values."""
        self.used = True
        return flat.array(self._text, number, self._step)


class RowList:
    """A list of objects that is still text; ``used`` once it has been read."""

    def __init__(self, text: bytes, step: Step) -> None:
        self._text = text
        self._step = step
        self.used = False

    def arrays(self, types: Mapping[str, int]) -> dict[str, Array] | None:
        """Return each input's array, by its dtype's number; None where rows are not regular lists of numbers."""
        self.used = True
        found: list[dict[str, Array]] = []
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
            found.append(arrays)
        if any(len({arrays[name].shape[1:] for arrays in found}) != 1 for name in types):
            return None
        return {name: np.concatenate([arrays[name] for arrays in found]) for name in types}

    def _pieces(self) -> Iterator[bytes]:
        at, end = 1, len(self._text) - 1
        while at <= end:  # a comma at the end leaves an empty piece, which is none
            cut = self._text.find(b"},", at + _PIECE, end) + 1 or end
            yield self._text[at:cut] if cut - at <= _LONGEST else b""
            at = cut + 1


class PartlyParsed(NamedTuple):
    """The values in a JSON text, long lists of which are still text: ``lists`` stand among the values, or for all."""

    values: list[Any] | NumberList | RowList
    lists: Sequence[NumberList | RowList]

    @property
    def all_used(self) -> bool:
        """Whether each list has been read: one at another place may be no JSON."""
        return all(found.used for found in self.lists)


def parse_around_lists(text: bytes, context: RequestContext, body_bytes: int | None = None) -> PartlyParsed | None:
    """Return a text's values without its long lists of numbers, or of objects; None where it has none, or is no JSON.

    Holds the memory that reading these takes; ``body_bytes`` is the length of the body where the text is a part of it.
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
    """Return a value with lists in the place of the strings that stand for them."""
    if isinstance(value, str):
        return lists[int(value[1:])] if value.startswith(_MARK) else value
    if isinstance(value, list):
        return [_filled(inner, lists) for inner in value]
    return {name: _filled(inner, lists) for name, inner in value.items()} if isinstance(value, dict) else value


def _joined_lines(text: bytes) -> bytes | None:
    """Return lines of numbers, or of lists of them, or of objects, as one list; None where there is anything else."""
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
    """They would pass for numbers."""
    return b"true" in text or b"false" in text


def _rows(text: bytes) -> tuple[int, int] | None:
    """Return where a list of objects begins and may end: what is no such list is found out when it is read."""
    found = _ROWS.search(text)
    if found is None or text.endswith(b"\\", 0, found.start()) or _has_bools(text):
        return None
    end = text.rfind(b"]") + 1
    return None if end < found.end() else (found.start(), end)


def _number_lists(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where what is between two other characters begins and ends with a bracket, blanks and a comma aside."""
    for start, end in _numeric_runs(text):
        opening, closing = text.find(b"[", start, end), text.rfind(b"]", start, end) + 1
        if opening < 0 or closing - opening < _MIN_LIST:
            continue
        before, after = text[start:opening].strip(_BLANKS), text[closing:end].strip(_BLANKS)
        # After a backslash, inside a string, a quote would not end it.
        if not before and after in (b"", b",") and not text.endswith(b"\\", 0, opening):
            yield opening, closing


def _numeric_runs(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where a list may be: long stretches of characters of which lists of numbers are made."""
    start = 0
    for at in range(0, len(text), _MIN_LIST):
        kinds = text[at : at + _MIN_LIST].translate(_IS_NUMERIC)
        if (other := kinds.find(0)) < 0:
            continue
        if at + other - start >= _MIN_LIST:  # a stretch inside of a block is never as long
            yield start, at + other
        start = at + kinds.rfind(0) + 1
    if len(text) - start >= _MIN_LIST:
        yield start, len(text)
