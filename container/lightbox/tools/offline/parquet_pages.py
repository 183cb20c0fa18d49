"""The pages of a Parquet file before they are read: pyarrow takes as much memory as the header of a page says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from lightbox.model_files.archives import FREE_BYTES, MAX_RATIO

_HEAD, _MOST_HEAD = 4 << 10, 16 << 20
"""Bytes that are read for the header of a page, and those of the longest one: it may hold two of the values."""
_MOST_DEPTH = 8
_TRUE, _FALSE, _BYTE, _DOUBLE, _TEXT, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
"""Types of a field in Thrift's compact protocol."""


class BadPage(Exception):
    """A page is damaged, or far larger than what it is read from."""


def check_pages(file: IO[bytes], column: Any) -> None:
    """Check each page of a group's column, with pyarrow's metadata of it. Raises BadPage."""
    at = min(place for place in (column.dictionary_page_offset, column.data_page_offset) if place)
    end = at + column.total_compressed_size
    while at < end:
        inflated, size, length = _sizes(file, at)
        if size < 0 or not 0 <= inflated <= MAX_RATIO * size + FREE_BYTES:
            raise BadPage(f"a page of {size:,} bytes inflates to {inflated:,}, more than {MAX_RATIO} times its size")
        at += length + size


def _sizes(file: IO[bytes], at: int) -> tuple[int, int, int]:
    """Return the bytes of a page without compression and with it, and those of its header."""
    for most in (_HEAD, _MOST_HEAD):
        file.seek(at)
        header = _Header(file.read(most))
        try:
            fields = dict(header.fields())
        except IndexError:
            continue
        return fields.get(2, -1), fields.get(3, -1), header.at
    raise BadPage("the header of a page cannot be read")


class _Header:
    """A structure in Thrift's compact protocol."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def fields(self, depth: int = 0) -> Iterator[tuple[int, int]]:
        """Yield number and value of the fields that are integers. Raises IndexError where the content ends first."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            if head & 15 in _INTEGERS:
                yield number, self._integer()
            elif head & 15 not in (_TRUE, _FALSE):
                self._pass_over(head & 15, depth)

    def _pass_over(self, kind: int, depth: int) -> None:
        if kind == _STRUCT and depth < _MOST_DEPTH:
            for _ in self.fields(depth + 1):
                pass
        elif kind in (_LIST, _SET) and depth < _MOST_DEPTH:
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._pass_over(head & 15, depth + 1)
        elif kind == _TEXT:
            length = self._varint()
            self.at += length
        elif kind in _INTEGERS:
            self._varint()
        elif kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            self.at += 8 if kind == _DOUBLE else 1
        else:
            raise BadPage("the header of a page cannot be read")

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128 or shift > 63:
                return number
            shift += 7

    def _byte(self) -> int:
        byte = self._content[self.at]
        self.at += 1
        return byte
