"""Image files written byte by byte, so that a test knows what is in them without asking a decoder.

Rows are given as the format stores them (packed samples); nothing here computes a colour.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

Chunk = tuple[bytes, bytes]
"""A name of four letters, and the data."""

Tags = dict[int, tuple[str, Sequence[int]]]
"""TIFF tags: a letter of TIFF_TYPES and the numbers."""

TIFF_TYPES = {"B": 1, "H": 3, "L": 4}

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data))


def png(
    size: tuple[int, int],
    depth: int,
    colour: int,
    rows: Iterable[bytes],
    *,
    before: Sequence[Chunk] = (),
    after: Sequence[Chunk] = (),
    level: int = 0,
) -> bytes:
    """A PNG; ``rows`` are unfiltered scan lines."""
    header = struct.pack(">LLBBBBB", *size, depth, colour, 0, 0, 0)
    packer = zlib.compressobj(level)
    data = b"".join(packer.compress(b"\0" + row) for row in rows) + packer.flush()
    chunks = [(b"IHDR", header), *before, (b"IDAT", data), *after, (b"IEND", b"")]
    return PNG_SIGNATURE + b"".join(png_chunk(*chunk) for chunk in chunks)


def bmp(
    size: tuple[int, int], depth: int, rows: Sequence[bytes], *, palette: bytes = b"", compression: int = 0
) -> bytes:
    """A BMP; ``rows`` from the top, each padded here to 4 bytes."""
    data = b"".join(row + bytes(-len(row) % 4) for row in reversed(rows))
    offset = 54 + len(palette)
    header = struct.pack("<LLLHHLLllLL", 40, *size, 1, depth, compression, len(data), 0, 0, 0, 0)
    return struct.pack("<2sLHHL", b"BM", offset + len(data), 0, 0, offset) + header + palette + data


def tiff(tags: Tags, data: bytes) -> bytes:
    """A TIFF: header, data (from byte 8), directory."""
    start = 8 + len(data)
    return b"II" + struct.pack("<HL", 42, start) + data + tiff_directory(tags, "<", start)


def tiff_directory(tags: Tags, order: str, offset: int) -> bytes:
    """One image file directory to be put at ``offset``, its long values behind it."""
    entries = values = b""
    start = offset + 6 + len(tags) * 12
    for tag, (letter, numbers) in sorted(tags.items()):
        packed = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
        entries += struct.pack(order + "HHL", tag, TIFF_TYPES[letter], len(numbers))
        if len(packed) <= 4:
            entries += packed.ljust(4, b"\0")
        else:
            entries += struct.pack(order + "L", start + len(values))
            values += packed + bytes(len(packed) % 2)
    return struct.pack(order + "H", len(tags)) + entries + bytes(4) + values


def gif_frame(box: tuple[int, int, int, int]) -> bytes:
    """One frame (left, top, width, height) with a single pixel, in LZW codes that never compress."""
    return b"," + struct.pack("<HHHHB", *box, 0) + b"\x07\x03\x80\x00\x81\0"


def gif(size: tuple[int, int], frames: Iterable[bytes], *, before: bytes = b"") -> bytes:
    """A GIF of frames from gif_frame."""
    return b"GIF89a" + struct.pack("<HHBBB", *size, 0, 0, 0) + before + b"".join(frames) + b";"


def riff_webp(*chunks: Chunk) -> bytes:
    """A WEBP container of (name, data) chunks."""
    body = b"".join(name + struct.pack("<L", len(data)) + data + bytes(len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<L", 4 + len(body)) + b"WEBP" + body


def vp8x(width: int, height: int, flags: int = 0) -> Chunk:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"VP8X", bytes([flags, 0, 0, 0]) + sides


def exif(orientation: int) -> bytes:
    """An EXIF block with the orientation alone."""
    return b"Exif\0\0MM\0*\0\0\0\x08" + tiff_directory({0x0112: ("H", (orientation,))}, ">", 8)


def jpeg_segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """The JPEG with further segments right behind its start."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]
