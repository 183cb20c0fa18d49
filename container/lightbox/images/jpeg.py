"""Colour JPEGs of one scan, read without Pillow: the same pixels in less CPU time (ADR 079).

Most photos are such files. Pillow reads all others, and those in which this module finds anything unusual.
"""

from __future__ import annotations

import struct
from functools import cache
from io import BytesIO
from typing import NamedTuple

import numpy as np
from PIL.JpegImagePlugin import JpegImageFile

from lightbox.images.exif import UPRIGHT, orientation_in
from lightbox.images.preparation import Size
from lightbox.images.resize import Rgbx, noise

try:
    import simplejpeg
except ImportError:  # no wheel for this platform
    simplejpeg = None

_CHECKED = ((67, 45), (16, 33))
_SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")

_SEGMENT, _FRAME = struct.Struct(">HH"), struct.Struct(">HBHHB")
_BASELINE, _EXTENDED, _SCAN = 0xFFC0, 0xFFC1, 0xFFDA
_START = b"\xff\xd8\xff"
_SCAN_OF_THREE = b"\xff\xda\0\x0c\x03"
"""The head of a scan of all three components: libjpeg reads no further one."""
_FRAME_OF_THREE = (17, 8, 3)
"""Length of the segment, bits of a value, components."""
_APP1, _APP2, _PHOTOSHOP = 0xFFE1, 0xFFE2, 0xFFED
_LEAST_LENGTHS = {0xFFC4: 2, 0xFFDB: 2, 0xFFDD: 2, 0xFFFE: 2} | dict.fromkeys(range(0xFFE0, 0xFFF0), 9)
"""Lengths of Huffman and quantization tables, restart intervals, comments and application segments.

Pillow fails on some shorter ones.
"""
_LEAST_LENGTHS[_APP2] = 16  # a colour profile has two numbers first
del _LEAST_LENGTHS[_PHOTOSHOP]  # Pillow fails on damaged ones
_MOST_SEGMENTS = 500
_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"


class Head(NamedTuple):
    """The header: the stored size (width, height), and the orientation, 1 to 8."""

    size: Size
    orientation: int


def read_head(body: bytes) -> Head | None:
    """Return the header of a JPEG of three components and one scan; None for other files, and unusual ones."""
    if not body.startswith(_START):
        return None
    at, end, size, exif, xmp = 2, len(body), None, b"", b""
    for _ in range(_MOST_SEGMENTS):
        if at + _SEGMENT.size > end:
            return None
        marker, length = _SEGMENT.unpack_from(body, at)
        if marker == _SCAN and body.startswith(_SCAN_OF_THREE, at):
            return None if size is None else Head(size, orientation_in(exif, xmp) if exif or xmp else UPRIGHT)
        start, at = at + 4, at + 2 + length
        if marker in (_BASELINE, _EXTENDED) and size is None and at <= end:
            of_segment, bits, height, width, components = _FRAME.unpack_from(body, start - 2)
            if (of_segment, bits, components) != _FRAME_OF_THREE or not (width and height):
                return None
            size = width, height
        elif length < _LEAST_LENGTHS.get(marker, 1 << 16):
            return None
        elif marker == _APP1 and body.startswith(_EXIF, start):
            exif += body[start + len(_EXIF) if exif else start : at]
        elif marker == _APP1 and body.startswith(_XMP, start):
            xmp = body[start + len(_XMP) : at]
    return None


def decode_jpeg(body: bytes, size: Size) -> Rgbx | None:
    """Return the stored pixels of a file with this header; None if simplejpeg finds damage.

    The interpreter lock is released.
    """
    pixels = np.empty((size[1], size[0], 4), np.uint8)
    try:
        found = simplejpeg.decode_jpeg(body, "RGBX", buffer=pixels)
    except ValueError:
        return None  # Pillow raises the error, or tolerates it
    return Rgbx(pixels) if found.shape == pixels.shape else None


def jpeg_agrees() -> bool:
    """Return whether simplejpeg is installed and gives the same pixels as this Pillow."""
    return simplejpeg is not None and all(
        _agrees(size, subsampling) for size in _CHECKED for subsampling in _SUBSAMPLINGS
    )


@cache
def _agrees(size: Size, subsampling: str) -> bool:
    file = BytesIO()
    noise(size).save(file, "JPEG", quality=80, subsampling=subsampling)
    found = decode_jpeg(file.getvalue(), size)
    return (
        found is not None and found.image.tobytes() == JpegImageFile(BytesIO(file.getvalue())).convert("RGB").tobytes()
    )
