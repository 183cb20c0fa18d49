"""A file that is read where its tables point to, so without its weights, and only so often."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO

from lightbox.model_runtime.access import open_file
from lightbox.model_runtime.deadline import check_deadline
from lightbox.model_runtime.wire.protobuf import FIXED32, LENGTH_DELIMITED, read_varint

MOST_LOOKS = 1_000_000
"""Looks at a file: some seconds. One is at a field or a number, or at sixteen bytes of a name; a step to another place
takes four, four equal fields in a row take one. For 50,000 nodes and 5,000 weights 250,000 are enough."""
_WINDOW, _SPAN, _PIECE = 1 << 12, 1 << 16, 1 << 20
_OF_A_STEP, _BYTES_PER_LOOK, _FIELDS_PER_LOOK = 4, 16, 4
_LONGEST_HEAD = 11
"""Most bytes of a field's tag of one byte, and of its length or number."""


class Looks:
    """The bytes of a file. Readers raise OSError, ValueError after MOST_LOOKS, and the error of ``check_deadline``.

    A memory map would crash the process if the file is truncated meanwhile.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.size = file.seek(0, SEEK_END)
        self._file = file
        self._left = MOST_LOOKS
        self._window, self._start = b"", 0

    def byte(self, at: int) -> int:
        """Return one byte, whose field is counted. Raises ValueError beyond the end."""
        if not 0 <= (place := at - self._start) < len(self._window):
            self._step_to(at)
            place = 0
            if not self._window:
                raise ValueError("it has become shorter")
        return self._window[place]

    def bytes(self, at: int, count: int) -> bytes:
        """Return some bytes; those beyond the end are missing."""
        self.count(1 + count // _BYTES_PER_LOOK)
        if not 0 <= (place := at - self._start) <= len(self._window) - count:
            self._step_to(at)
            place = 0
            if count > _WINDOW:
                return self._window + self._file.read(count - len(self._window))
        return self._window[place : place + count]

    def holds(self, at: int, count: int, expected: builtins.bytes) -> bool:
        """Return whether a text is among some bytes, which are searched thousands at a time."""
        self.count(1 + count // _WINDOW)
        if count <= _WINDOW:
            if not 0 <= at - self._start <= len(self._window) - count:
                self._step_to(at)
            return self._window.find(expected, at - self._start, at - self._start + count) >= 0
        self._file.seek(at)
        end = b""
        while count > 0 and (piece := self._file.read(min(count, _PIECE))):
            check_deadline()
            if expected in end + piece:
                return True
            end, count = piece[1 - len(expected) :], count - len(piece)
        return False

    def behind(self, at: int, end: int, tag: int) -> int:
        """Return the place behind the fields at ``at`` that have a tag of one byte, which are read thousands at a time.

        ``end`` is that of their message. Raises ValueError if it is inside one.
        """
        kind, span, start, fields = tag & 7, b"", at, 0
        while at < end:
            place = at - start
            if place + _LONGEST_HEAD > len(span) and start + len(span) < end:
                self.count(1 + len(span) // _WINDOW)
                check_deadline()
                self._file.seek(at)
                span, start, place = self._file.read(min(_SPAN, end - at)), at, 0
                if not span:
                    raise ValueError("it has become shorter")
            if span[place] != tag:
                break
            if kind == FIXED32:
                at += 5
            else:
                number, place = read_varint(span, place + 1)
                at = start + place + (number if kind == LENGTH_DELIMITED else 0)
            fields += 1
            if fields % _FIELDS_PER_LOOK == 0:
                self.count(1)
        if at > end:
            raise ValueError("its message ends inside a field")
        return at

    def _step_to(self, at: int) -> None:
        self.count(_OF_A_STEP)
        check_deadline()
        self._file.seek(at)
        self._window, self._start = self._file.read(_WINDOW), at

    def count(self, looks: int) -> None:
        """Count looks."""
        self._left -= looks
        if self._left < 0:
            raise ValueError("its tables are longer than those of any model")


@contextmanager
def looks_at(path: Path) -> Iterator[Looks]:
    """Open a regular file. Raises OSError."""
    with open_file(path) as file:
        yield Looks(file)
