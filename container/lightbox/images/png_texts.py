"""A PNG without its colour profile and its large texts: nothing reads them, and Pillow decompresses them whole."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

_SIGNATURE = 8
_HEAD = struct.Struct(">I4s")
_CHECKSUM = 4
_TEXTS = (b"zTXt", b"iTXt", b"tEXt")
_PROFILE = b"iCCP"
_LARGE = 1 << 18
"""Characters of a text that stays: orientations are in small ones."""
_MOST_TOGETHER = 4 << 20
_MOST_CHUNKS = 100_000
"""Later chunks stay, and Pillow's own limits apply to them."""


def without_large_texts(body: bytes) -> bytes:
    """Return a PNG without its profile and its large texts, the same bytes if it has none."""
    if not any(kind in body for kind in (_PROFILE, *_TEXTS)):
        return body
    dropped, together = list[tuple[int, int]](), 0
    for kind, start, end in _chunks(body):
        if kind in _TEXTS and together < _MOST_TOGETHER:
            size = _characters(kind, memoryview(body)[start + _HEAD.size : end - _CHECKSUM])
            together += size
            if size < _LARGE:
                continue
        if kind in _TEXTS or kind == _PROFILE:
            dropped.append((start, end))
    if not dropped:
        return body
    ends, starts = [0, *(end for _, end in dropped)], [*(start for start, _ in dropped), len(body)]
    whole = memoryview(body)
    return b"".join(whole[end:start] for end, start in zip(ends, starts, strict=True))


def _chunks(body: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start and end of each whole chunk."""
    at = _SIGNATURE
    for _ in range(_MOST_CHUNKS):
        if at + _HEAD.size > len(body):
            return
        size, kind = _HEAD.unpack_from(body, at)
        end = at + _HEAD.size + size + _CHECKSUM
        if end > len(body):
            return
        yield kind, at, end
        at = end


def _characters(kind: bytes, data: memoryview) -> int:
    """Return the characters of a text, at most _LARGE of a compressed one; they are bytes here."""
    if kind == b"tEXt" or len(data) >= _LARGE:
        return len(data)
    text = bytes(data)
    start = text.find(b"\0") + 1
    if kind == b"iTXt":
        if text[start : start + 1] != b"\1":  # not compressed
            return len(text)
        start = text.find(b"\0", text.find(b"\0", start + 2) + 1)  # behind language and translated keyword
    try:
        return len(zlib.decompressobj().decompress(text[start + 1 :], _LARGE))
    except zlib.error:
        return len(text)
