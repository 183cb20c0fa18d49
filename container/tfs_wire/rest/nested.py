"""Arrays -> nested JSON lists, in pieces: every value with what stands between it and the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from tfs_wire import dtypes
from tfs_wire.rest import floats
from tfs_wire.rest.writer import INDENT, decimals, to_bytes
from tfs_wire.status import invalid

Array = np.ndarray[Any, np.dtype[Any]]
Bytes = npt.NDArray[np.uint8]

_FIRST_MARK = 0x80
"""Marks are no ASCII, so that neither numbers nor the text between them hold any."""

_INTEGERS = {
    *(dtypes.DT_INT32, dtypes.DT_UINT8, dtypes.DT_INT16, dtypes.DT_INT8),
    *(dtypes.DT_INT64, dtypes.DT_UINT32, dtypes.DT_UINT64),
}


class Brackets:
    """What stands around and between the values of an array.

    ``between[n]`` stands between two values where n lists end and n begin, ``between[-1]`` before the
    first value; ``end`` comes after the last.
    """

    def __init__(self, between: Sequence[str], end: str) -> None:
        self.between = [to_bytes(text) for text in between]
        self.end = to_bytes(end)


def in_rows(depth: int, between_rows: str) -> Brackets:
    """Return the brackets of lists on one line, without those of the outermost, whose items are the rows."""
    inner = depth - 1
    between = ["]" * ended + ", " + "[" * ended for ended in range(inner)]
    return Brackets([*between, "]" * inner + between_rows + "[" * inner, "[" * inner], "]" * inner)


def on_lines(depth: int, level: int) -> Brackets:
    """Return the brackets of lists with one item on a line, the outermost indented by ``level``."""
    lines = ["\n" + INDENT * (level + inner) for inner in range(depth + 1)]
    opening, closing = [f"[{line}" for line in lines[1:]], [f"{line}]" for line in lines[:-1]]
    between = []
    for ended in range(depth):
        kept = depth - ended
        between.append("".join(reversed(closing[kept:])) + "," + lines[kept] + "".join(opening[kept:]))
    return Brackets([*between, "".join(opening)], "".join(reversed(closing)))


def pieces(array: Array, brackets: Brackets) -> Iterator[bytes]:
    """Yield the text of an array of numbers or bools that is not empty; StatusError for other dtypes."""
    number = dtypes.number_of(array.dtype)
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1)
    for start in range(0, flat.size, floats.CHUNK):
        values = flat[start : start + floats.CHUNK]
        text = _marked(values, number, _marks(array.shape, start, values.size))
        for ended, between in enumerate(brackets.between):
            text = text.replace(bytes([_FIRST_MARK + ended]), between)
        yield text
    yield brackets.end


def joined(texts: Sequence[str], shape: Sequence[int], brackets: Brackets) -> bytes:
    """Return the text of an array whose values are texts already."""
    marks = _marks(shape, 0, len(texts)) - _FIRST_MARK
    found = zip(marks.tolist(), texts, strict=True)
    return (
        b"".join(chain.from_iterable((brackets.between[ended], to_bytes(text)) for ended, text in found)) + brackets.end
    )


def _marks(shape: Sequence[int], start: int, count: int) -> Bytes:
    """Return a mark for each value: how many lists begin with it."""
    marks = np.full(count, _FIRST_MARK, np.uint8)
    size = 1
    for length in reversed(shape):
        size *= length
        marks[-start % size :: size] += 1
    return marks


def _marked(values: Array, number: int, marks: Bytes) -> bytes:
    if number == dtypes.DT_FLOAT:
        return floats.texts(values, marks)
    if number == dtypes.DT_DOUBLE:
        text = bytearray(to_bytes("," + ",".join(decimals(values))))
    elif number == dtypes.DT_BOOL or number in _INTEGERS:
        text = bytearray(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY))
        text[0] = ord(",")
        del text[-1]
    else:
        raise invalid(f"Failed to write JSON value for tensor type: {dtypes.name_of(number)}")
    octets = np.frombuffer(text, np.uint8)
    octets[octets == ord(",")] = marks
    return bytes(text)
