"""Long lists of numbers in JSON text: they stay text until they become arrays, in C.

The long lists are taken out of the text first, so that the parser gets only names and a few small values. As Python
objects a list of one-digit numbers takes 15 times its text, and rows by name 30 times; as an array it takes 2 to 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lightbox.model_runtime.native import numbers
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest.json_document import MAX_VALUES
from lightbox.model_runtime.wire.status import StatusError

Array = np.ndarray[Any, np.dtype[Any]]
Step = Callable[[], None]
"""Called repeatedly by slow steps; it may raise."""
_INT32 = (-(1 << 31), (1 << 31) - 1)
_LIMITS = {
    **dict.fromkeys((dtypes.DT_INT32, dtypes.DT_INT16, dtypes.DT_INT8, dtypes.DT_UINT8), _INT32),
    dtypes.DT_INT64: (-(1 << 63), (1 << 63) - 1),
    dtypes.DT_UINT32: (0, (1 << 32) - 1),
    dtypes.DT_UINT64: (0, (1 << 64) - 1),
}
"""The smallest and the largest JSON number for an integer dtype; short dtypes keep the low bits."""
FLOATS = frozenset({dtypes.DT_FLOAT, dtypes.DT_DOUBLE})
NUMERIC = FLOATS | _LIMITS.keys()
"""TensorFlow's numbers of the dtypes for which JSON has numbers."""
_MIN_BYTES = 1 << 12
"""Shorter texts have too few numbers to save time or memory."""
_MIN_NUMBERS = 16
"""A text with fewer commas and lines has no long lists; most often it is an image in base64."""
_MIN_LIST = 1 << 10
_RARE = 64
"""Up to here, one search for each occurrence is faster than one count of all."""
_BLANKS = b" \t\r\n"
_OPENING = re.compile(rb"[\[ \t\r\n]*")
_MARK = "\0"
"""First character of the string that replaces a list; texts that contain it, escaped, are parsed whole."""
_BACKSLASH = ord("\\")
_PIECE = 1 << 16
_LONGEST = 16 * _PIECE
"""Longest piece of a list of objects; lists without a place to cut are parsed to values."""
_ROWS = re.compile(rb"\[[ \t\r\n]*(?=\{)")


def code_of(number: int) -> str:
    """Return the type code in which JSON's numbers are read for a dtype: float64, uint64 or int64."""
    return "d" if number in FLOATS else "Q" if number == dtypes.DT_UINT64 else "q"


def converted(values: Array, number: int) -> Array | None:
    """Return numbers as read from JSON in a dtype, or None if it does not hold all of them."""
    if number in _LIMITS and values.size:
        low, high = _LIMITS[number]
        if not low <= values.min() <= values.max() <= high:
            return None
    if values.dtype == dtypes.numpy_dtype(number) and values.flags.writeable:
        return values
    with np.errstate(over="ignore"):
        found = values.astype(dtypes.numpy_dtype(number))
    return None if number == dtypes.DT_FLOAT and (np.isinf(found) & np.isfinite(values)).any() else found


class NumberList:
    """A list of numbers, nested or flat, still as text; ``used`` after it has been read."""

    def __init__(self, text: bytes | memoryview, step: Step) -> None:
        self.text = text
        self._step = step
        self.used = False

    @property
    def depth(self) -> int:
        """Nesting depth of its first number."""
        opening = _OPENING.match(self.text)
        return 0 if opening is None else opening[0].count(b"[")

    def take(self) -> bytes | memoryview:
        """Return its text, to be read as a part of another list."""
        self.used = True
        return self.text

    def array(self, number: int) -> Array | None:
        """Return an array of a dtype, given by TensorFlow's number; None if it must be parsed to values."""
        self.used = True
        native = numbers.load()
        if native is None or number not in NUMERIC:
            return None
        self._step()
        code = "f" if number == dtypes.DT_FLOAT else code_of(number)
        values = native.read(memoryview(self.text), code, dtypes.MAX_DIMENSIONS)  # about 0.15 s for 100 MB
        self._step()
        return None if values is None else converted(values, number)


class RowList:
    """A list of objects, still as text; ``used`` after its pieces have been read."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.used = False

    def pieces(self) -> Iterator[bytes]:
        """Yield lists of some of the objects; one that is empty, or no JSON, shows that the text has another form."""
        self.used = True
        at, end = 1, len(self._text) - 1
        while at <= end:  # a comma at the end leaves an empty piece
            cut = self._text.find(b"},", at + _PIECE, end) + 1 or end
            yield b"[%b]" % self._text[at:cut] if cut - at <= _LONGEST else b""
            at = cut + 1


class PartlyParsed(NamedTuple):
    """The values of a JSON text whose long ``lists`` are still text, among the values or as a whole."""

    values: Any
    lists: Sequence[NumberList | RowList]

    @property
    def all_used(self) -> bool:
        """Whether each list has been read; an unread one may be invalid JSON."""
        return all(found.used for found in self.lists)


def parse_around_lists(
    text: bytes | bytearray,
    parse: Callable[[bytes], Any],
    step: Step = lambda: None,
    hold: Callable[[int], None] | None = None,
    *,
    lines: bool = False,
) -> PartlyParsed | None:
    """Return the values that ``parse`` makes of a text without its long lists; None if it has none, or is invalid.

    ``hold`` is called with the most memory that reading takes beside the text, so far: it may raise. With ``lines``
    lists of objects count too, and lines of lists or objects are one list, instead of the values.
    """
    if len(text) < _MIN_BYTES or (b"\\" in text and b"\\u0000" in text):
        return None
    held = 0
    if hold is not None:
        if all(_count_to(_MIN_NUMBERS, text, octet) < _MIN_NUMBERS for octet in (b",", b"\n")):
            return None
        held = len(text) + max(2 * len(text), 8 * text.count(b","))
        hold(held)
    joined = _joined_lines(text) if lines else None
    text = joined or text
    view, at = memoryview(text), 0
    pieces: list[bytes | memoryview] = []
    lists: list[NumberList | RowList] = []
    for start, end in _number_lists(text):
        pieces += [view[at:start], b'"\\u0000%d"' % len(lists)]
        lists.append(NumberList(view[start:end], step))
        at = end
    if not lists and lines and (rows := _rows(text)) is not None:
        start, at = rows
        pieces = [view[:start], b'"\\u00000"']
        lists = [RowList(bytes(view[start:at]))]
    if not lists:
        return None
    around = b"".join([*pieces, view[at:]])
    if hold is not None:
        hold(held + parsing_bytes(around))
    try:
        values = _filled(parse(around), lists)
    except (StatusError, RecursionError):
        return None
    return PartlyParsed(values[0] if joined else values, lists)


def _filled(value: Any, lists: Sequence[NumberList | RowList]) -> Any:
    """Return a value with the lists in place of their placeholder strings."""
    if isinstance(value, str):
        return lists[int(value[1:])] if value.startswith(_MARK) else value
    if isinstance(value, list):
        return [_filled(inner, lists) for inner in value]
    if isinstance(value, dict):
        for name, inner in value.items():
            value[name] = _filled(inner, lists)
    return value


def _joined_lines(text: bytes | bytearray) -> bytes | None:
    """Return lines of numbers, of lists as deep as each other or of objects as one list; None for other lines."""
    inner = bytes(text.strip(_BLANKS))
    if not (lines := _count(inner, b"\n")):
        return None
    depth = len(inner) - len(inner.lstrip(b"["))
    if depth:
        is_list = inner.count(b"]" * depth + b"\n" + b"[" * depth) == lines
    elif b"{" in inner:
        is_list = inner.count(b"}\n{") == inner.count(b"{") - 1 == lines
    else:
        is_list = lines < MAX_VALUES and not any(octet in inner for octet in (b"[", b'"', b","))
    return b"[%b]" % inner.replace(b"\n", b",") if is_list else None


def _rows(text: bytes | bytearray) -> tuple[int, int] | None:
    """Return where a list of objects begins and may end; reading it checks the rest."""
    found = _ROWS.search(text)
    if found is None or text.endswith(b"\\", 0, found.start()):
        return None
    end = text.rfind(b"]") + 1
    return None if end < found.end() else (found.start(), end)


def _number_lists(text: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Yield begin and end of what can be a list of numbers, between two quotes; reading it checks the rest."""
    at = 0
    while at < len(text):
        if (quote := text.rfind(b'"', at, at + _MIN_LIST)) >= 0:
            at = quote + 1
            continue
        quote = text.find(b'"', at + _MIN_LIST)
        end = len(text) if quote < 0 else quote
        start = text.find(b"[", at, end)
        stop = text.find(b"}", start, end)
        stop = text.rfind(b"]", start, end if stop < 0 else stop) + 1
        # A quote after a backslash does not end a string.
        if at <= start < stop - _MIN_LIST and text[start - 1] != _BACKSLASH:
            yield start, stop
        at = end + 1


def parsing_bytes(text: bytes) -> int:
    """Return the most memory that parsing a text and making arrays of it takes, by its structure.

    Measured with orjson: 16 bytes for each value during parsing, 8 for its place in a list, 24 for a float, 72 for a
    list and 184 for an object; arrays are made from flat lists. Python's own parser takes no more.
    """
    weights = {b",": 48, b"[": 88, b"{": 200, b'"': 60, b"\n": 32}
    return 4 * len(text) + sum(weight * _count(text, character) for character, weight in weights.items())


def _count(text: bytes | bytearray, character: bytes) -> int:
    """Return ``text.count(character)``; for rare characters, as in an image's base64, in a tenth of the time."""
    found = _count_to(_RARE, text, character)
    return found if found < _RARE else text.count(character)


def _count_to(most: int, text: bytes | bytearray, character: bytes) -> int:
    found, at = 0, text.find(character)
    while at >= 0 and found < most:
        found, at = found + 1, text.find(character, at + 1)
    return found
