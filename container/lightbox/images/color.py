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
    I;16 in any byte order      value / 257, rounded to nearest, so that 65535 is 255 and v * 257 is v
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
import numpy.typing as npt
from PIL import Image, TiffImagePlugin

from lightbox.errors import ImageUndecodable
from lightbox.images.failures import undecodable

Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)

STRIP_PIXELS = 1 << 20

_BY_PILLOW = frozenset({"1", "L", "P", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
# Premultiplied alpha is undone first: compositing it directly would wrap around on a malformed file.
_STRAIGHT_ALPHA = {"LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBa": "RGBA"}
_SIXTEEN_BIT = frozenset({"I;16", "I;16L", "I;16B", "I;16N"})
_FLOAT_TOPS = (1, 255, 65535)

Numbers = npt.NDArray[np.int32] | npt.NDArray[np.uint32] | npt.NDArray[np.float32]


def to_rgb(image: Image.Image, background: Colour = WHITE) -> Image.Image:
    """Give the image in mode RGB by the table above; ``background`` shows through where it is transparent.

    An RGB image is returned as it is, not copied. Raises ImageUndecodable for what has no RGB meaning.
    """
    with undecodable("image"):
        image.load()
        return _convert(image, background)


def to_grey(image: Image.Image, background: Colour = WHITE) -> Image.Image:
    """Give the image in mode L: grey values as they are, colours by Pillow's convert("L") of to_rgb."""
    if image.mode == "L" and not image.has_transparency_data:
        return image
    return to_rgb(image, background).convert("L")


def _convert(image: Image.Image, background: Colour) -> Image.Image:
    if image.mode in _SIXTEEN_BIT:
        key = image.info.get("transparency")
        return _in_strips(image, lambda strip: _from_16_bit(strip, key, background))
    if image.mode in {"I", "F"}:
        top = _white_of(image)
        return _in_strips(image, lambda strip: _from_numbers(_numbers(strip, image), top))
    if image.has_transparency_data:
        return _in_strips(image, lambda strip: _composite(strip, background))
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


def _composite(strip: Image.Image, background: Colour) -> Image.Image:
    mode = _STRAIGHT_ALPHA.get(strip.mode, "RGBA")
    straight = strip if strip.mode == mode else strip.convert(mode)
    canvas = Image.new("RGB", straight.size, background)
    canvas.paste(straight, (0, 0), straight)
    return canvas


def _from_16_bit(strip: Image.Image, key: object, background: Colour) -> Image.Image:
    values = np.asarray(strip)
    grey = ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if not isinstance(key, int):
        return Image.fromarray(grey).convert("RGB")
    transparent = (values == key)[..., np.newaxis]
    return Image.fromarray(np.where(transparent, np.array(background, np.uint8), grey[..., np.newaxis]))


def _from_numbers(values: Numbers, top: int) -> Image.Image:
    finite = np.nan_to_num(values.astype(np.float64), nan=0, posinf=top, neginf=0)
    grey = np.rint(np.clip(finite, 0, top) * 255 / top).astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")


def _numbers(strip: Image.Image, whole: Image.Image) -> Numbers:
    values: Numbers = np.asarray(strip)
    unsigned = strip.mode == "I" and _tiff_tag(whole, TiffImagePlugin.SAMPLEFORMAT) == 1
    return values.view(np.uint32) if unsigned else values


def _white_of(image: Image.Image) -> int:
    brightest = max(_brightest(_numbers(image.crop(box), image)) for box in _strips(image))
    for top in _tops(image):
        if brightest <= top:
            return top
    raise ImageUndecodable(
        f"The image has floating-point pixels up to {brightest:g}; "
        "the ranges 0 to 1, 0 to 255 and 0 to 65535 are understood."
    )


def _brightest(values: Numbers) -> float:
    return float(values[np.isfinite(values)].max(initial=0))


def _tops(image: Image.Image) -> tuple[int, ...]:
    if image.mode == "F":
        return _FLOAT_TOPS
    if image.format == "PPM":
        return (65535,)
    if _tiff_tag(image, TiffImagePlugin.BITSPERSAMPLE) == 16:
        return (32767,)
    unsigned = _tiff_tag(image, TiffImagePlugin.SAMPLEFORMAT) == 1
    return 255, 65535, 2**32 - 1 if unsigned else 2**31 - 1


def _tiff_tag(image: Image.Image, tag: int) -> object:
    """The tag's first value in a TIFF, by TIFF's default of 1 if it is missing; None for other formats."""
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return None
    value = image.tag_v2.get(tag, 1)
    return value[0] if isinstance(value, tuple) and value else value
