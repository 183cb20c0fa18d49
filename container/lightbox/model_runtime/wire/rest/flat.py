"""A long body with one regular array to an ndarray, without a list for each row.

The compiled library parses it. Without the library, the array's brackets are checked separately and then blanked out,
so that the parser sees one flat list. All functions give exactly the same result as the readers of lists, or give up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson

from lightbox.model_runtime.native import numbers
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest import quick
from lightbox.model_runtime.wire.status import StatusError

Array = np.ndarray[Any, np.dtype[Any]]

MIN_BYTES = 1 << 12
"""Shorter bodies have too few lists to save time."""

_CHUNK = 1 << 17
"""Bytes of numbers that are Python objects at once."""

_BLANKS, _IN_NUMBERS = b" \t\r\n", b"0123456789+-.eE"
_BLANKED = bytes.maketrans(b"[]", b"  ")
_NUMBER_BEHIND, _NUMBER_BEFORE = re.compile(rb"\][^\],]"), re.compile(rb"\[(?<![\[,]\[)")
"""Any character except a bracket or comma, after a closing bracket or before an opening one."""


class _BodyFields(NamedTuple):
    signature_name: str
    by_row: bool
    input_name: str | None


def read(
    body: bytes | bytearray, input_types: Callable[[str], Mapping[str, int]]
) -> tuple[str, dict[str, Array], bool] | None:
    """Return a ``PredictBody``'s content, or None if another reader must parse it, or report an error."""
    start, end = body.find(b"["), body.rfind(b"]") + 1
    if start < 0 or end - start < MIN_BYTES:
        return None
    fields = _asked(body[:start] + b"null" + body[end:])
    if fields is None:
        return None
    try:
        types = input_types(fields.signature_name)
    except StatusError:  # errors of the text come first
        return None
    if len(types) != 1:
        return None
    ((name, number),) = types.items()
    if fields.input_name not in (None, name):
        return None
    values = array(memoryview(body)[start:end], number)
    return None if values is None else (fields.signature_name, {name: values}, fields.by_row)


def _asked(around: bytes | bytearray) -> _BodyFields | None:
    """Return the fields of the text around the array; null is in the array's place."""
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
    # A repeated name is not in the document.
    if values is not None or around.count(b'"') != 2 * strings:
        return None
    return _BodyFields(signature_name, form == "instances", name)


# ---------------------------------------------------------------- the array


def array(text: memoryview, number: int, step: Callable[[], None] = lambda: None) -> Array | None:
    """Return the regular array of JSON ``text`` in the dtype of this number, or None for another text.

    Only for text of brackets, numbers, commas and blanks. ``step`` is called in between: it may raise.
    """
    step()
    if number not in quick.DTYPES:
        return None
    native = numbers.load()
    if native is not None:
        code = "f" if number == dtypes.DT_FLOAT else quick.code_of(number)
        values = native.read(text, code, dtypes.MAX_DIMENSIONS)  # about 0.15 s for 100 MB
        step()
        if values is not None:
            return values if values.dtype == dtypes.numpy_dtype(number) else quick.converted(values, number)
    return _in_parts(bytes(text), number, step)


def _in_parts(text: bytes, number: int, step: Callable[[], None]) -> Array | None:
    """Do the same without the library, and for the few numbers that it leaves, some at a time."""
    unspaced = text.translate(None, _BLANKS)
    if _NUMBER_BEHIND.search(unspaced) or _NUMBER_BEFORE.search(unspaced, 1):
        return None
    shape = _shape(unspaced.translate(None, _IN_NUMBERS))
    if shape is None:
        return None
    values = np.empty(math.prod(shape), dtypes.numpy_dtype(number))
    text = text.translate(_BLANKED)
    at = filled = 0
    while at < len(text):
        step()
        end = text.find(b",", at + _CHUNK)
        end = len(text) if end < 0 else end
        piece = _packed(text[at:end], number)
        if piece is None or filled + len(piece) > len(values):
            return None
        values[filled : filled + len(piece)] = piece
        at, filled = end + 1, filled + len(piece)
    return values.reshape(shape) if filled == len(values) else None


def _packed(text: bytes, number: int) -> Array | None:
    try:
        values = orjson.loads(b"[%b]" % text)
    except orjson.JSONDecodeError:
        return None
    return quick.packed(values, (len(values),), number) if values else None


def _shape(marks: bytes) -> tuple[int, ...] | None:
    """Return the shape of these brackets and commas, or None if they are not regular."""
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
