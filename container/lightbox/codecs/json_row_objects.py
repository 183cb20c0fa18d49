"""Many small rows by name in JSON, made arrays some at a time: all of them as objects are 30 times their text.

A text is cut where an object ends and the next begins. Where each piece is a list of whole rows, all of them together
are the pieces' rows one after another, whatever stands in them; elsewhere nothing is read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import orjson

from lightbox.model_spec import Array
from tfs_wire.rest import quick

_PIECE = 1 << 16
_LONGEST = 16 * _PIECE
"""A piece that is longer, for want of a place to cut, is not read here."""
_BLANKS = b" \t\r\n"
# Python's \s is more than JSON's blanks.
_B = rb"[ \t\r\n]*"
_HEAD = re.compile(rb'%b\{%b(?:"signature_name"%b:%b"(\w*)"%b,%b)?"instances"%b:%b\[(?=%b\{)' % ((_B,) * 9))
_TAIL = re.compile(rb"\]%b\}%b\Z" % (_B, _B))


class Rows:
    """The text of rows, each of them an object, from ``start`` to ``end``; ``signature`` is the name given, or ""."""

    def __init__(self, text: bytes, start: int, end: int, separator: bytes, signature: str = "") -> None:
        self.signature = signature
        self._text, self._start, self._end = text, start, end
        self._separator = separator

    def arrays(self, types: Mapping[str, int], step: Callable[[], None]) -> dict[str, Array] | None:
        """Return each input's array, by its dtype's number; None where rows are not regular lists of numbers."""
        found: dict[str, list[Array]] = {name: [] for name in types}
        for piece in self._pieces():
            step()
            arrays = _piece_arrays(piece, types)
            if arrays is None:
                return None
            for name, array in arrays.items():
                found[name].append(array)
        if any(len({array.shape[1:] for array in arrays}) != 1 for arrays in found.values()):
            return None
        return {name: np.concatenate(arrays) for name, arrays in found.items()}

    def _pieces(self) -> Iterator[bytes]:
        at = self._start
        while at < self._end:
            cut = self._text.find(self._separator, at + _PIECE, self._end)
            cut = self._end if cut < 0 else cut + 1
            if cut - at > _LONGEST:
                yield b""
                return
            yield self._text[at:cut].replace(b"\n", b",") if self._separator == b"}\n" else self._text[at:cut]
            at = cut + 1


def rows_of(text: bytes) -> Rows | None:
    """Return the rows of ``{"instances": [{...}, ...]}``, of a bare list, or of lines; None where there are none."""
    if b"true" in text or b"false" in text:
        return None
    if (head := _HEAD.match(text)) and (tail := _TAIL.search(text, max(head.end(), len(text) - 64))):
        return Rows(text, head.end(), tail.start(), b"},", (head[1] or b"").decode())
    inner = text.strip(_BLANKS)
    if inner.startswith(b"[{") and inner.endswith(b"}]"):
        return Rows(inner, 1, len(inner) - 1, b"},")
    if inner.startswith(b"{") and b"}\n{" in inner:
        return Rows(inner, 0, len(inner), b"}\n")
    return None


def _piece_arrays(piece: bytes, types: Mapping[str, int]) -> dict[str, Array] | None:
    try:
        rows = orjson.loads(b"[%b]" % piece)
    except orjson.JSONDecodeError:
        return None
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    return quick.regular(rows, True, types)
