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

TIFF_TYPES = {"B": 1, "H": 3, "L": 4, "Q": 16}

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def pack_bits(samples: Sequence[int], depth: int) -> bytes:
    """Samples of ``depth`` bits each, first in the high bits, padded to a byte."""
    bits = "".join(f"{sample:0{depth}b}" for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


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
    interlace: int = 0,
    parts: int = 1,
    level: int = 0,
) -> bytes:
    """A PNG; ``rows`` are unfiltered scan lines, already in Adam7 order if ``interlace`` is 1."""
    header = struct.pack(">LLBBBBB", *size, depth, colour, 0, 0, interlace)
    packer = zlib.compressobj(level)
    data = b"".join(packer.compress(b"\0" + row) for row in rows) + packer.flush()
    step = -(-len(data) // parts)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    chunks = [(b"IHDR", header), *before, *((b"IDAT", piece) for piece in pieces), *after, (b"IEND", b"")]
    return PNG_SIGNATURE + b"".join(png_chunk(*chunk) for chunk in chunks)


def bmp(
    size: tuple[int, int],
    depth: int,
    rows: Sequence[bytes],
    *,
    palette: bytes = b"",
    compression: int = 0,
    masks: Sequence[int] = (),
) -> bytes:
    """A BMP; ``rows`` from the top, each padded here to 4 bytes. A negative height stores them downwards."""
    padded = [row + bytes(-len(row) % 4) for row in rows]
    data = b"".join(padded if size[1] < 0 else reversed(padded))
    fields = struct.pack(f"<{len(masks)}L", *masks)
    header_size = 40 if len(masks) <= 3 else 56
    inside = fields if header_size > 40 else b""
    offset = 14 + header_size + len(palette) + len(fields) - len(inside)
    header = struct.pack("<LllHHLLllLL", header_size, *size, 1, depth, compression, len(data), 0, 0, 0, 0)
    tail = palette + (b"" if inside else fields) + data
    return struct.pack("<2sLHHL", b"BM", offset + len(data), 0, 0, offset) + header + inside + tail


def tiff(tags: Tags, data: bytes, *, order: str = "<", big: bool = False) -> bytes:
    """A TIFF or BigTIFF: header, data (from byte 8, or 16), directory."""
    start = (16 if big else 8) + len(data)
    fields = struct.pack(order + "HHHQ", 43, 8, 0, start) if big else struct.pack(order + "HL", 42, start)
    head = (b"II" if order == "<" else b"MM") + fields
    return head + data + tiff_directory(tags, order, start, big=big)


def tiff_directory(tags: Tags, order: str, offset: int, *, following: int = 0, big: bool = False) -> bytes:
    """One image file directory to be put at ``offset``, its long values behind it."""
    room, pointer = (8, "Q") if big else (4, "L")
    entries = values = b""
    start = offset + (8 if big else 2) + len(tags) * (20 if big else 12) + room
    for tag, (letter, numbers) in sorted(tags.items()):
        packed = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
        entries += struct.pack(order + "HH" + pointer, tag, TIFF_TYPES[letter], len(numbers))
        if len(packed) <= room:
            entries += packed.ljust(room, b"\0")
        else:
            entries += struct.pack(order + pointer, start + len(values))
            values += packed + bytes(len(packed) % 2)
    number = struct.pack(order + ("Q" if big else "H"), len(tags))
    return number + entries + struct.pack(order + pointer, following) + values


def gif_frame(
    box: tuple[int, int, int, int], indices: Sequence[int], *, palette: bytes = b"", key: int | None = None
) -> bytes:
    """One frame (left, top, width, height) of 7-bit indices, in LZW codes that never compress."""
    control = b"" if key is None else b"\x21\xf9\x04" + bytes([1, 0, 0, key]) + b"\0"
    flags = 0x80 | (len(palette) // 3).bit_length() - 2 if palette else 0
    codes: list[int] = []
    for at, index in enumerate(indices):
        if at % 100 == 0:
            codes.append(128)  # clear the table before the codes would become 9 bits wide
        codes.append(index)
    codes.append(129)
    number = sum(code << 8 * at for at, code in enumerate(codes))
    data = number.to_bytes(len(codes), "little")
    blocks = b"".join(bytes([len(data[at : at + 255])]) + data[at : at + 255] for at in range(0, len(data), 255))
    return control + b"," + struct.pack("<HHHHB", *box, flags) + palette + b"\x07" + blocks + b"\0"


def gif(size: tuple[int, int], frames: Iterable[bytes], *, palette: bytes = b"", before: bytes = b"") -> bytes:
    """A GIF of frames from gif_frame; the palette has 2, 4, 8 ... 256 colours."""
    flags = 0x80 | (len(palette) // 3).bit_length() - 2 if palette else 0
    return b"GIF89a" + struct.pack("<HHBBB", *size, flags, 0, 0) + palette + before + b"".join(frames) + b";"


def riff_webp(*chunks: Chunk) -> bytes:
    """A WEBP container of (name, data) chunks."""
    body = b"".join(name + struct.pack("<L", len(data)) + data + bytes(len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<L", 4 + len(body)) + b"WEBP" + body


def vp8x(width: int, height: int, flags: int = 0) -> Chunk:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"VP8X", bytes([flags, 0, 0, 0]) + sides


def exif(orientation: int, order: str = ">", kind: str = "H") -> bytes:
    """An EXIF block with the orientation alone."""
    head = b"II*\0\x08\0\0\0" if order == "<" else b"MM\0*\0\0\0\x08"
    return b"Exif\0\0" + head + tiff_directory({0x0112: (kind, (orientation,))}, order, 8)


def jpeg_segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """The JPEG with further segments right behind its start."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]
