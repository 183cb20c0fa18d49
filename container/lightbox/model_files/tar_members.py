"""The members of a tar archive, read as a stream: headers, names and sizes, with every byte counted.

POSIX ustar and pax, and GNU's long names. Python's tarfile is not used: its vulnerabilities are in functions that this
code replaces, and differ by micro version (ADR 065).
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

from typing_extensions import override

BLOCK = 512
MAX_HEADERS = 60_000
"""A member has up to three headers: pax's or GNU's for its name and its link, and its own."""
MAX_EXTENDED = 64 << 10
"""Longest extended header in bytes: a long name, or pax's records."""
_CHUNK = 1 << 16

FILE, FOLDER, HARD_LINK = "file", "folder", "hard link"
_FILES = (b"0", b"\0", b"7")
SYMBOLIC_LINK = "a symbolic link"
_WITHOUT_CONTENT = {
    **{b"5": FOLDER, b"1": HARD_LINK, b"2": SYMBOLIC_LINK},
    **{b"3": "a device", b"4": "a device", b"6": "a named pipe"},
}


class BadArchive(ValueError):
    """The archive cannot be used; the message goes on after "the archive"."""


@dataclass(frozen=True)
class Member:
    """One file, folder, link or member of another ``kind``; ``size`` bytes of content follow in the stream."""

    name: str
    kind: str
    size: int
    executable: bool
    link: str


class Stream(ABC):
    """The content of an archive, without compression."""

    @abstractmethod
    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end. Raises BadArchive."""

    def exactly(self, size: int) -> bytes:
        """Return ``size`` bytes; none if the archive ends first."""
        pieces: list[bytes] = []
        while size:
            pieces.append(piece := self.read(size))
            size -= len(piece)
            if not piece and len(pieces) > 1:
                raise BadArchive("ends within a member")
            if not piece:
                return b""
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        """Pass over ``size`` bytes. Raises BadArchive if the archive ends first."""
        while size:
            size -= len(piece := self.read(min(size, _CHUNK)))
            if not piece:
                raise BadArchive("ends within a member")


class Inflated(Stream):
    """The decompressed content of a gzip file; ``count`` gets the number of bytes before they are returned."""

    def __init__(self, file: IO[bytes], count: Callable[[int], None]) -> None:
        self._pieces = _inflate(file, count)
        self._piece = b""
        self._start = 0

    @override
    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end. Raises BadArchive for invalid or damaged gzip."""
        if self._start == len(self._piece):
            self._piece, self._start = next(self._pieces, b""), 0
        found = self._piece[self._start : self._start + size]
        self._start += len(found)
        return found


def read_members(stream: Stream, joined: bool = False) -> Iterator[Member]:
    """Yield the members. The content of each must be read from ``stream`` before the next one.

    ``joined`` archives are read to the end of the stream, each of which has any number of members.
    """
    said: dict[str, str] = {}
    headers, ended = 0, False
    while headers < MAX_HEADERS or joined:
        header = stream.exactly(BLOCK)
        if not any(header):
            if header and joined:
                ended = True
                continue
            if joined and not ended:
                raise BadArchive("is cut off")
            return
        headers, ended = headers + 1, False
        _check_sum(header)
        kind, size = header[156:157], _number(header[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            said |= _extended(kind, _content(stream, size))
            continue
        member = _member(header, kind, size, said)
        yield member
        stream.exactly(-member.size % BLOCK)
        said = {}
    raise BadArchive(f"has more than {MAX_HEADERS:,} headers")


def _inflate(file: IO[bytes], count: Callable[[int], None]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=31)
    while data := file.read(_CHUNK):
        while data:
            count(0)  # checks the deadline while no bytes come out
            if inflater.eof:
                if not data.strip(b"\0"):
                    break
                inflater = zlib.decompressobj(wbits=31)
            try:
                piece = inflater.decompress(data, _CHUNK)
            except zlib.error:
                raise BadArchive("is not a gzip file, or is damaged") from None
            data = inflater.unused_data or inflater.unconsumed_tail
            count(len(piece))
            if piece:
                yield piece
    if not inflater.eof:
        raise BadArchive("is cut off")


def _member(header: bytes, kind: bytes, size: int, said: dict[str, str]) -> Member:
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and (prefix := _text(header[345:500])):
        name = f"{prefix}/{name}"
    name = said.get("path", name)
    if kind == b"S":
        raise BadArchive(f"holds {name[:200]!r}, a sparse file")
    content = FILE if kind in _FILES else _WITHOUT_CONTENT.get(kind, f"of type {kind!r}")
    if kind == b"\0" and name.endswith("/"):
        content = FOLDER
    size = _pax_size(said["size"]) if "size" in said else size
    link = said.get("linkpath", _text(header[157:257]))
    executable = bool(_number(header[100:108]) & 0o100)
    return Member(name, content, 0 if content in _WITHOUT_CONTENT.values() else size, executable, link)


def _content(stream: Stream, size: int) -> bytes:
    if size > MAX_EXTENDED:
        raise BadArchive(f"has a header of {size:,} bytes; at most {MAX_EXTENDED:,} are read")
    return stream.exactly(size + -size % BLOCK)[:size]


def _extended(kind: bytes, content: bytes) -> dict[str, str]:
    """Return a header's fields for the next member: ``path``, ``linkpath``, ``size``."""
    if kind in (b"L", b"K"):
        return {"path" if kind == b"L" else "linkpath": _text(content)}
    records = dict(_records(content))
    if any(name.startswith("GNU.sparse") for name in records):
        raise BadArchive("holds a sparse file: expected files, folders and hard links")
    # Fields for all members never hold a name, link or size.
    return {name: records[name] for name in ("path", "linkpath", "size") if kind == b"x" and name in records}


def _records(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield pax's records, each ``<length> <name>=<value>`` and a newline."""
    start = 0
    while start < len(content):
        digits, space, _ = content[start : start + 8].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = content[start + len(digits) + 1 : start + length]
        name, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n") or start + length > len(content):
            raise BadArchive("has a header that cannot be read")
        yield _text(name), _text(value[:-1])
        start += length


def _check_sum(header: bytes) -> None:
    if sum(header) - sum(header[148:156]) + 8 * 32 != _number(header[148:156]):
        raise BadArchive("is not a tar archive, or is damaged")


def _number(field: bytes) -> int:
    """Return an octal number, or GNU's binary one, which begins with the bit 0x80."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip()
    if digits.strip(b"01234567"):
        raise BadArchive("has a number that cannot be read")
    return int(digits or b"0", 8)


def _pax_size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadArchive("has a size that cannot be read")
    return int(text)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
