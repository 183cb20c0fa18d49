"""One rule for every mode: what a pixel becomes in 8-bit RGB.

    mode                        becomes
    --------------------------  ----------------------------------------------------------------------------
    RGB                         itself
    1, L                        the same value in all three channels; 1 is 0 or 255
    P                           its palette colour
    RGBX, CMYK, YCbCr, HSV,     Pillow's convert("RGB"). CMYK of JPEG is inverted as Adobe writes it; colour
    LAB                         profiles are not applied
    LA, La, PA, RGBA, RGBa,     composited on the background colour, rounded to nearest:
    and 1, L, P, RGB with a     (colour * alpha + background * (255 - alpha)) / 255
    transparent colour (tRNS)
    I;16 in any byte order      value / 257, rounded to nearest, so that 65535 is 255 and v * 257 is v; 12-bit
                                TIFF by its own maximum, 4095; where a 16-bit TIFF says that white is 0,
                                inverted; a transparent colour (tRNS) becomes the background
    I (32-bit integers)         0..top to 0..255, rounded to nearest; below 0 is 0. The top is 65535 for PGM
                                and 32767 for 16-bit signed TIFF. Other files do not say what white is: the
                                top is the smallest of 255, 65535 and the type's own maximum (2**31 - 1, or
                                2**32 - 1 for unsigned TIFF) that no pixel exceeds
    F (32-bit floats)           the same with the tops 1, 255 and 65535; NaN is 0; beyond 65535 is refused
    anything else               refused: ImageUndecodable

RGB with 16 bits per channel never arrives here: Pillow keeps the upper 8 bits while it reads, and a
transparent colour is compared by these.
Images of more than a megapixel are converted strip by strip, so that no second copy of the whole is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

from lightbox.errors import ImageUndecodable
from lightbox.images.depth import DEEP, Scale, scale_of
from lightbox.images.failures import undecodable

Colour = tuple[int, int, int]
BACKGROUND: Colour = (255, 255, 255)
"""What shows through where an image is transparent."""

STRIP_PIXELS = 1 << 20

_BY_PILLOW = frozenset({"1", "L", "P", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
# Premultiplied alpha is undone first: compositing it directly would wrap around on a malformed file.
_STRAIGHT_ALPHA = {"LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBa": "RGBA"}


def to_rgb(image: Image.Image) -> Image.Image:
    """Give the image in mode RGB by the table above; BACKGROUND shows through where it is transparent.

    An RGB image is returned as it is, not copied. Raises ImageUndecodable for what has no RGB meaning.
    """
    with undecodable("image"):
        image.load()
        return _convert(image)


def to_grey(image: Image.Image) -> Image.Image:
    """Give the image in mode L: grey values as they are, colours by Pillow's convert("L") of to_rgb."""
    if image.mode == "L" and not image.has_transparency_data:
        return image
    return to_rgb(image).convert("L")


def _convert(image: Image.Image) -> Image.Image:
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


def _strips(image: Image.Image) -> Iterator[tuple[int, int, int, int]]:
    rows = max(1, STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        yield 0, top, image.width, min(top + rows, image.height)


def _in_strips(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    if image.width * image.height <= STRIP_PIXELS:
        return convert(image)
    whole = Image.new("RGB", image.size)
    for box in _strips(image):
        whole.paste(convert(image.crop(box)), box)
    return whole


def _composite(strip: Image.Image) -> Image.Image:
    mode = _STRAIGHT_ALPHA.get(strip.mode, "RGBA")
    straight = strip if strip.mode == mode else strip.convert(mode)
    canvas = Image.new("RGB", straight.size, BACKGROUND)
    canvas.paste(straight, (0, 0), straight)
    return canvas


def _from_deep(strip: Image.Image, scale: Scale) -> Image.Image:
    grey = scale.grey(strip)
    key = strip.info.get("transparency")
    if not isinstance(key, int):
        return Image.fromarray(grey).convert("RGB")
    transparent = (np.asarray(strip) == key)[..., np.newaxis]
    return Image.fromarray(np.where(transparent, np.array(BACKGROUND, np.uint8), grey[..., np.newaxis]))
