"""Pixels in the model's form: RGB or grey, 8 bits.

Grey pixels may have 16 or 32 bits. In a 16-bit PNG, white is 65535. Images of 32 bits mostly declare no white; then the
smallest usual range with every pixel is assumed, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image as Images
from PIL import TiffImagePlugin
from PIL.Image import Image

from lightbox.base.errors import ImageUndecodable
from lightbox.images.limits import Undecodable

Numbers = npt.NDArray[np.uint16] | npt.NDArray[np.int32] | npt.NDArray[np.uint32] | npt.NDArray[np.float32]

SIXTEEN_BIT = frozenset({"I;16", "I;16L", "I;16B", "I;16N"})
DEEP = SIXTEEN_BIT | {"I", "F"}

_FLOAT_TOPS = (1, 255, 65535)
Colour = tuple[int, int, int]
BACKGROUND: Colour = (255, 255, 255)
"""The background of transparent images."""

STRIP_PIXELS = 1 << 20

_BY_PILLOW = frozenset({"1", "L", "P", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
# Premultiplied alpha is undone first: compositing it directly would wrap around on a malformed file.
_STRAIGHT_ALPHA = {"LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBa": "RGBA"}


@dataclass(frozen=True)
class Scale:
    """Maps an image's numbers from 0 to ``top`` to 0..255.

    Integers keep their upper 8 bits, as Pillow, OpenCV and TensorFlow read colors of 16; floats go to the nearest.
    """

    top: int
    unsigned: bool = False
    white_is_zero: bool = False

    def grey(self, part: Image) -> npt.NDArray[np.uint8]:
        """Return a part of the image as [height, width] uint8. Negative and NaN become 0, above ``top`` 255."""
        numbers = _numbers(part, self.unsigned)
        if numbers.dtype.kind == "f":
            finite = np.nan_to_num(numbers.astype(np.float64), nan=0, posinf=self.top, neginf=0)
            grey = np.rint(np.clip(finite, 0, self.top) * 255 / self.top)
        else:
            grey = numbers.clip(0, self.top) >> self.top.bit_length() - 8
        eight_bit = grey.astype(np.uint8)
        return 255 - eight_bit if self.white_is_zero else eight_bit


def scale_of(image: Image, parts: Iterable[Image]) -> Scale:
    """Return the scale of an image in a DEEP mode; ``parts`` together are its pixels.

    Raises ImageUndecodable for floating-point pixels outside all known ranges.
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
    """Return the tag's first value in a TIFF; None for other formats and a missing tag."""
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return None
    default = 1 if tag == TiffImagePlugin.SAMPLEFORMAT else None
    value = image.tag_v2.get(tag, default)
    return value[0] if isinstance(value, tuple) and value else value


def to_rgb(image: Image) -> Image:
    """Return the image in mode RGB, transparent pixels on BACKGROUND.

    An RGB image is returned without a copy. Raises ImageUndecodable for modes without an RGB form.
    """
    with Undecodable("image"):
        image.load()
        return _convert(image)


def to_grey(image: Image) -> Image:
    """Return the image in mode L: grey values unchanged, colours by Pillow's convert("L") of to_rgb."""
    if image.mode == "L" and not image.has_transparency_data:
        return image
    return to_rgb(image).convert("L")


def _convert(image: Image) -> Image:
    if image.mode in DEEP:
        scale = scale_of(image, (image.crop(box) for box in _strips(image)))
        return _in_strips(image, lambda strip: _from_deep(strip, scale))
    if image.has_transparency_data:
        return _in_strips(image, _composite)
    if image.mode == "RGB":
        return image
    if image.mode in _BY_PILLOW:
        return image.convert("RGB")
    raise ImageUndecodable(f"The image has mode {image.mode}, which cannot be turned into RGB.")


def _strips(image: Image) -> Iterator[tuple[int, int, int, int]]:
    rows = max(1, STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        yield 0, top, image.width, min(top + rows, image.height)


def _in_strips(image: Image, convert: Callable[[Image], Image]) -> Image:
    if image.width * image.height <= STRIP_PIXELS:
        return convert(image)
    whole = Images.new("RGB", image.size)
    for box in _strips(image):
        whole.paste(convert(image.crop(box)), box)
    return whole


def _composite(strip: Image) -> Image:
    mode = _STRAIGHT_ALPHA.get(strip.mode, "RGBA")
    straight = strip if strip.mode == mode else strip.convert(mode)
    canvas = Images.new("RGB", straight.size, BACKGROUND)
    canvas.paste(straight, (0, 0), straight)
    return canvas


def _from_deep(strip: Image, scale: Scale) -> Image:
    grey = scale.grey(strip)
    key = strip.info.get("transparency")
    if not isinstance(key, int):
        return Images.fromarray(grey).convert("RGB")
    transparent = (np.asarray(strip) == key)[..., np.newaxis]
    return Images.fromarray(np.where(transparent, np.array(BACKGROUND, np.uint8), grey[..., np.newaxis]))
