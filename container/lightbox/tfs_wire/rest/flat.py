"""A long body of one regular array -> ndarray, without a list for each of its rows.

The array's brackets are checked by themselves and then blanked out, so that the parser sees one flat list.
Everything here gives exactly what the readers of lists would give, or gives up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from lightbox.tfs_wire import dtypes
from lightbox.tfs_wire.rest import quick
from lightbox.tfs_wire.status import StatusError

Array = np.ndarray[Any, np.dtype[Any]]
Positions = npt.NDArray[np.intp]

MIN_BYTES = 1 << 12
"""Below, there are too few lists to save anything."""

_BLOCK = 1 << 16
"""Bytes that are looked at at once; they stay in a processor's cache."""

_CHUNK = 1 << 17
"""Bytes of numbers that are objects at once."""

_OPENING, _CLOSING, _COMMA, _SPACE = b"[], "


class _Asked(NamedTuple):
    signature_name: str
    by_row: bool
    input_name: str | None


def read(
    body: bytes | bytearray, input_types: Callable[[str], Mapping[str, int]]
) -> tuple[str, dict[str, Array], bool] | None:
    """Return what a ``PredictBody`` holds, or None where another reader must look, or find the words for an error."""
    start, end = body.find(b"["), body.rfind(b"]") + 1
    if start < 0 or end - start < MIN_BYTES:
        return None
    asked = _asked(body[:start] + b"null" + body[end:])
    # True and false would pass for numbers.
    if asked is None or body.find(b"t", start) >= start or body.find(b"f", start) >= start:
        return None
    try:
        types = input_types(asked.signature_name)
    except StatusError:  # a fault of the text is told first
        return None
    if len(types) != 1:
        return None
    ((name, number),) = types.items()
    if asked.input_name not in (None, name):
        return None
    values = array(memoryview(body)[start:end], number)
    return None if values is None else (asked.signature_name, {name: values}, asked.by_row)


def _asked(around: bytes | bytearray) -> _Asked | None:
    """Return what the text around the array says; null stands in the array's place."""
    try:
        document = orjson.loads(around)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    signature_name = document.pop("signature_name", "")
    form, values = document.popitem() if len(document) == 1 else ("", None)
    if form not in ("instances", "inputs") or not isinstance(signature_name, str):
        return None
    name = None
    if isinstance(values, dict) and form == "inputs" and len(values) == 1:
        ((name, values),) = values.items()
    strings = 1 + 2 * (b"signature_name" in around) + (name is not None)
    # A name that was given twice is not in the document.
    if values is not None or around.count(b'"') != 2 * strings:
        return None
    return _Asked(signature_name, form == "instances", name)


# ---------------------------------------------------------------- the array


def array(text: memoryview, number: int, step: Callable[[], None] = lambda: None) -> Array | None:
    """Return the regular array that JSON ``text`` is, in the dtype of this number, or None where it is another.

    For text of brackets, numbers, commas and blanks alone. Numbers become objects some thousands at a time, and
    ``step`` is called in between: it may raise.
    """
    found = _blanked(text, step)
    if found is None or number not in quick.DTYPES:
        return None
    blanked, shape = found
    values = np.empty(math.prod(shape), dtypes.numpy_dtype(number))
    view, last = memoryview(blanked), len(blanked) - 1
    at = filled = 0
    while at < last:
        step()
        end = blanked.find(b",", at + _CHUNK)
        end = last if end < 0 else end
        blanked[at], blanked[end] = _OPENING, _CLOSING  # in the place of the commas around this part
        piece = _packed(view[at : end + 1], number)
        if piece is None or filled + len(piece) > len(values):
            return None
        values[filled : filled + len(piece)] = piece
        at, filled = end, filled + len(piece)
    return values.reshape(shape) if filled == len(values) else None


def _packed(numbers: memoryview, number: int) -> Array | None:
    try:
        values = orjson.loads(numbers)
    except orjson.JSONDecodeError:
        return None
    return quick.packed(values, (len(values),), number) if values else None


def _blanked(text: memoryview, step: Callable[[], None]) -> tuple[bytearray, tuple[int, ...]] | None:
    """Return the text with blanks for brackets, and the shape that these tell; None where they are not regular."""
    octets, blanked = np.frombuffer(text, np.uint8), bytearray(len(text))
    target = np.frombuffer(blanked, np.uint8)
    marks = []
    left = np.empty(0, np.intp)
    for start in range(0, len(octets), _BLOCK):
        step()
        block = octets[start : start + _BLOCK]
        places = np.concatenate([left, _blank(block, target[start : start + _BLOCK]) + start])
        found = octets[places]
        if not _nothing_between(octets, places, found):
            return None
        marks.append(found[len(left) :].tobytes())
        left = places[-1:]
    shape = _shape(b"".join(marks))
    return None if shape is None else (blanked, shape)


def _blank(block: Array, target: Array) -> Positions:
    """Copy a block with blanks for brackets; return where its brackets and commas are."""
    brackets = (block - _OPENING <= _CLOSING - _OPENING).view(np.uint8)
    target[:] = (block & (brackets - 1)) | (brackets * _SPACE)
    return np.flatnonzero(brackets.view(bool) | (block == _COMMA))


def _shape(marks: bytes) -> tuple[int, ...] | None:
    """Return the shape whose brackets and commas these are, or None if they are not regular."""
    depth = len(marks) - len(marks.lstrip(b"["))
    if depth > dtypes.MAX_DIMENSIONS:
        return None
    shape: list[int] = []
    inner = b""
    for level in range(depth):
        start = depth - 1 - level
        size = (marks.find(b"]" * (level + 1)) + level - start) // (len(inner) + 1)
        if size < 1:
            return None
        shape.append(size)
        # Not by join, which takes 80 bytes for each piece.
        inner = b"[" + (inner + b",") * (size - 1) + inner + b"]"
        if not marks.startswith(inner, start):
            return None
    return tuple(reversed(shape)) if marks == inner else None


def _nothing_between(octets: Array, places: Positions, marks: Array) -> bool:
    """Return whether only a space, if anything, stands where no number may be: after "]" and before "["."""
    empty = (marks[:-1] == _CLOSING) | (marks[1:] == _OPENING)
    gaps, after = np.diff(places), octets[places[:-1] + 1]
    wrong = (gaps > 2) | ((gaps == 2) & (after != _SPACE))
    return not (empty & wrong).any()
