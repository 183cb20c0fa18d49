"""Grey pixels of 16 and 32 bits, and what value in them is white.

A PNG of 16 bits says so: white is 65535. Images of 32 bits mostly do not; then the smallest usual range that
holds every pixel is taken. (An image meant for a larger one would be black all over: nothing is lost.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import TiffImagePlugin
from PIL.Image import Image

from lightbox.errors import ImageUndecodable

Numbers = npt.NDArray[np.uint16] | npt.NDArray[np.int32] | npt.NDArray[np.uint32] | npt.NDArray[np.float32]

SIXTEEN_BIT = frozenset({"I;16", "I;16L", "I;16B", "I;16N"})
DEEP = SIXTEEN_BIT | {"I", "F"}

_FLOAT_TOPS = (1, 255, 65535)


@dataclass(frozen=True)
class Scale:
    """How the numbers of one image become 0 to 255: 0 to ``top`` linearly, rounded to nearest."""

    top: int
    unsigned: bool = False
    white_is_zero: bool = False

    def grey(self, part: Image) -> npt.NDArray[np.uint8]:
        """Give a part of the image as [height, width] uint8. Below 0 and NaN is 0, above ``top`` is 255."""
        numbers = _numbers(part, self.unsigned)
        if numbers.dtype.itemsize == 2:
            grey = (numbers.astype(np.uint32) * 510 + self.top) // (2 * self.top)
        else:
            finite = np.nan_to_num(numbers.astype(np.float64), nan=0, posinf=self.top, neginf=0)
            grey = np.rint(np.clip(finite, 0, self.top) * 255 / self.top)
        eight_bit = grey.astype(np.uint8)
        return 255 - eight_bit if self.white_is_zero else eight_bit


def scale_of(image: Image, parts: Iterable[Image]) -> Scale:
    """Find the scale of an image of one of the DEEP modes; ``parts`` together are its pixels.

    Raises ImageUndecodable for floating-point pixels in no range that is understood.
    """
    bits = _tiff_tag(image, TiffImagePlugin.BITSPERSAMPLE)
    if image.mode in SIXTEEN_BIT:
        inverted = _tiff_tag(image, TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == 0
        return Scale(4095 if bits == 12 else 65535, white_is_zero=inverted)
    if image.mode == "I" and image.format == "PPM":
        return Scale(65535)
    if image.mode == "I" and bits == 16:
        return Scale(32767)
    unsigned = image.mode == "I" and _tiff_tag(image, TiffImagePlugin.SAMPLEFORMAT) == 1
    tops = _FLOAT_TOPS if image.mode == "F" else (255, 65535, 2**32 - 1 if unsigned else 2**31 - 1)
    brightest = max(_brightest(_numbers(part, unsigned)) for part in parts)
    for top in tops:
        if brightest <= top:
            return Scale(top, unsigned)
    raise ImageUndecodable(
        f"The image has floating-point pixels up to {brightest:g}; "
        "the ranges 0 to 1, 0 to 255 and 0 to 65535 are understood."
    )


def _numbers(part: Image, unsigned: bool) -> Numbers:
    numbers: Numbers = np.asarray(part)
    # Pillow's mode I is signed; the upper half of an unsigned TIFF has become negative.
    return numbers.view(np.uint32) if unsigned else numbers


def _brightest(numbers: Numbers) -> float:
    return float(numbers[np.isfinite(numbers)].max(initial=0))


def _tiff_tag(image: Image, tag: int) -> object:
    """The tag's first value in a TIFF; None for other formats and where it is missing."""
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return None
    default = 1 if tag == TiffImagePlugin.SAMPLEFORMAT else None
    value = image.tag_v2.get(tag, default)
    return value[0] if isinstance(value, tuple) and value else value
