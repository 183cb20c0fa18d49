"""Encoded bytes to pixels: check the header, then load, then turn into upright RGB."""

from __future__ import annotations

from typing import Literal

from PIL import Image
from PIL.ImageFile import ImageFile
from PIL.PngImagePlugin import PngImageFile

from lightbox.errors import ImageUndecodable
from lightbox.images.color import to_grey, to_rgb
from lightbox.images.formats import OPENERS, correct_key, is_image, sniff_format
from lightbox.images.limits import ImageLimits, check_decoding, check_header
from lightbox.images.orientation import UPRIGHT, orientation_of, swaps_sides, turn_upright
from lightbox.images.reader import PatientBytes, undecodable

__all__ = ["ImageLimits", "decode_rgb", "is_image", "open_image", "sniff_format"]

DEFAULT_LIMITS = ImageLimits()


def open_image(body: bytes | memoryview, limits: ImageLimits = DEFAULT_LIMITS) -> ImageFile:
    """Read the header alone: format, size and mode are known, no pixel is decoded.

    Raises ImageUndecodable (400) for bytes that are no image of an accepted format or have a broken header,
    TooLarge (413) for more pixels, or more memory to decode them, than the limits allow.
    """
    name = sniff_format(body)
    if name is None:
        raise ImageUndecodable(_no_image(body))
    data = bytes(body)
    with undecodable(f"{name} image"):
        check_header(name, data, limits)
        image = OPENERS[name](PatientBytes(data, limits.header_cpu_seconds))
        limits.check_size(*image.size)
        check_decoding(image, data, limits)
        if isinstance(image, PngImageFile):
            correct_key(image)
    return image


def decode_rgb(
    body: bytes | memoryview,
    limits: ImageLimits = DEFAULT_LIMITS,
    *,
    apply_exif_orientation: bool = True,
    mode: Literal["RGB", "L"] = "RGB",
    fast_size: tuple[int, int] | None = None,
) -> Image.Image:
    """Decode to an image of ``mode`` RGB (3 x 8 bit) or L (8 bit), upright; of several frames the first.

    ``fast_size`` is the (width, height) that the caller will resize to: a JPEG of at least four times that is
    then decoded at reduced scale, to no less than twice that, which is faster and changes pixels by 1 or 2.
    Transparent pixels are composited on white. Raises as open_image does, also for a file
    whose pixels are truncated or broken.
    """
    image = open_image(body, limits)
    with undecodable(f"{image.format} image"):
        if fast_size:
            _reduce(image, fast_size)
        _allow(image, limits.cpu_seconds)
        image.load()
        orientation = orientation_of(image) if apply_exif_orientation else UPRIGHT
    pixels = to_rgb(image) if mode == "RGB" else to_grey(image)
    del image  # before the turned copy is made: half the memory of a large one
    return turn_upright(pixels, orientation)


def _reduce(image: ImageFile, size: tuple[int, int]) -> None:
    width, height = reversed(size) if swaps_sides(orientation_of(image)) else size
    image.draft(None, (2 * width, 2 * height))


def _allow(image: ImageFile, cpu_seconds: float) -> None:
    if isinstance(image.fp, PatientBytes):
        image.fp.allow(cpu_seconds)


def _no_image(body: bytes | memoryview) -> str:
    accepted = ", ".join(OPENERS)
    if not len(body):
        return f"The body is empty; an image was expected ({accepted})."
    return f"The body is no image of an accepted format ({accepted})."
