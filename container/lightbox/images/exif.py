"""EXIF orientation: how the camera was held, and the upright image.

Only one tag is needed, so this module reads EXIF without Pillow's getexif: a hostile or broken block must not warn,
fail or take long. As in Pillow, XMP counts only if EXIF has no orientation.
"""

from __future__ import annotations

import re
import struct

from PIL.ExifTags import Base
from PIL.Image import Image, Transpose
from PIL.TiffImagePlugin import TiffImageFile

UPRIGHT = 1

_TURN: dict[int, Transpose] = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
_BYTE_ORDER = {b"II": "<", b"MM": ">"}
_SHORT, _LONG = 3, 4
_IN_XMP = re.compile(rb'tiff:Orientation(?:="|>)([1-8])')


def orientation_of(image: Image) -> int:
    """Return the orientation, 1 to 8; 1, upright, if EXIF is missing or broken or has another number."""
    if isinstance(image, TiffImageFile):
        value = image.tag_v2.get(Base.Orientation)
        return value if isinstance(value, int) and value in _TURN else UPRIGHT
    xmp = image.info.get("xmp")
    return orientation_in(_exif_of(image), xmp if isinstance(xmp, bytes) else None)


def orientation_in(exif: bytes | None, xmp: bytes | None) -> int:
    """Return the orientation as ``orientation_of`` does, from the two blocks that may hold it."""
    found = _in_exif(exif) if exif else None
    if found is None and xmp and (match := _IN_XMP.search(xmp)):
        found = int(match[1])
    return found if found in _TURN else UPRIGHT


def swaps_sides(orientation: int) -> bool:
    """Return whether turning the image upright swaps width and height."""
    return orientation >= 5


def turn_upright(image: Image, orientation: int) -> Image:
    """Return the upright image; the same object if it already is."""
    return image if orientation == UPRIGHT else image.transpose(_TURN[orientation])


def _exif_of(image: Image) -> bytes | None:
    exif = image.info.get("exif")
    if exif is None and (profile := image.info.get("Raw profile type exif")):
        # ImageMagick's form of EXIF in PNG: three lines of header, then hexadecimal.
        try:
            exif = bytes.fromhex("".join(profile.split("\n")[3:]))
        except ValueError:
            return None
    return exif if isinstance(exif, bytes) else None


def _in_exif(exif: bytes) -> int | None:
    """Return the tag's value in the first directory of an EXIF block; None if missing or broken."""
    block = exif.removeprefix(b"Exif\0\0").removeprefix(b"Exif\0\0")
    order = _BYTE_ORDER.get(block[:2])
    if order is None:
        return None
    try:
        (start,) = struct.unpack_from(order + "L", block, 4)
        (entries,) = struct.unpack_from(order + "H", block, start)
        for at in range(start + 2, start + 2 + 12 * entries, 12):
            tag, kind, count = struct.unpack_from(order + "HHL", block, at)
            if tag == Base.Orientation:
                return _value(order, kind, count, block[at + 8 : at + 12])
    except struct.error:
        pass
    return None


def _value(order: str, kind: int, count: int, field: bytes) -> int | None:
    if count != 1 or kind not in {_SHORT, _LONG}:
        return None
    value: int = struct.unpack_from(order + ("H" if kind == _SHORT else "L"), field)[0]
    return value
