"""EXIF orientation: how the camera was held, and the picture turned upright.

One tag is wanted, so EXIF is read here and not by Pillow's getexif: a hostile or broken block must neither warn, nor
fail, nor take long. As in Pillow, XMP counts only where EXIF says nothing.
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
    """Give the orientation, 1 to 8; 1, upright, where EXIF is missing, broken or says another number."""
    if isinstance(image, TiffImageFile):
        value = image.tag_v2.get(Base.Orientation)
        return value if isinstance(value, int) and value in _TURN else UPRIGHT
    exif, xmp = _exif_of(image), image.info.get("xmp")
    found = _in_exif(exif) if exif else None
    if found is None and isinstance(xmp, bytes) and (match := _IN_XMP.search(xmp)):
        found = int(match[1])
    return found if found in _TURN else UPRIGHT


def swaps_sides(orientation: int) -> bool:
    """Tell whether turning the picture upright makes its width its height."""
    return orientation >= 5


def turn_upright(image: Image, orientation: int) -> Image:
    """Give the picture as the camera saw it; the same object if it already is."""
    return image if orientation == UPRIGHT else image.transpose(_TURN[orientation])


def _exif_of(image: Image) -> bytes | None:
    exif = image.info.get("exif")
    if exif is None and (profile := image.info.get("Raw profile type exif")):
        # ImageMagick's way to put EXIF into PNG: three lines of header, then hexadecimal.
        try:
            exif = bytes.fromhex("".join(profile.split("\n")[3:]))
        except ValueError:
            return None
    return exif if isinstance(exif, bytes) else None


def _in_exif(exif: bytes) -> int | None:
    """The tag's value in the first directory of an EXIF block; None if missing or broken."""
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
