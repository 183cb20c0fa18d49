"""One image that is opened late: a part of a body, or what a session keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, NamedTuple, Protocol

import numpy as np
from PIL.Image import Image

from lightbox.core.errors import BadRequest
from lightbox.core.request_context import RequestContext
from lightbox.images.color import STRIP_PIXELS
from lightbox.images.preparation import Size
from lightbox.images.resize import Rgbx, for_pillow

Mode = Literal["RGB", "L"]
Pixels = Image | Rgbx
Resized = Callable[[Size], Size]
"""Tells the size that a picture of a size will be resized to."""


class Opened(NamedTuple):
    """A picture's ``pixels``, and its ``size``, which is larger than theirs where it was decoded at reduced scale.

    A part that was cut out of the picture has its ``origin`` there.
    """

    pixels: Pixels
    size: Size
    origin: tuple[int, int] = (0, 0)


Opener = Callable[[Mode, Resized | None], Opened]
"""Opens a picture in a mode; one that will be resized may come reduced."""


class Open(Protocol):
    """Gives the pixels of a picture, upright; times the stage that it is. Raises what decoding raises."""

    def __call__(self, context: RequestContext, mode: Mode = "RGB", resized: Resized | None = None) -> Opened:
        """Return an image of ``mode``; with ``resized`` one that is larger than what it tells, but may be reduced."""
        ...


@dataclass(frozen=True)
class Picture:
    """An image by its pixels; ``original`` is the file that it came as, where the picture is all of it."""

    open: Open
    original: bytes | None = None


class Crop(NamedTuple):
    """A part of an image, in pixels from its upper left corner."""

    x: int
    y: int
    width: int
    height: int

    def box(self, size: Size) -> tuple[int, int, int, int]:
        """Return left, upper, right and lower of the part; raise BadRequest unless it lies in an image of ``size``."""
        right, lower = self.x + self.width, self.y + self.height
        if not (self.width and self.height and right <= size[0] and lower <= size[1]):
            raise BadRequest(
                f"tfs-crop: expected x,y,width,height of a part of the image, which is {size[0]}x{size[1]}; "
                f"got {','.join(map(str, self))}"
            )
        return self.x, self.y, right, lower


def cut(image: Pixels, crop: Crop) -> Opened:
    """Return a part of an image, a copy. Raises BadRequest for a part that does not lie in it."""
    left, upper, right, lower = crop.box(image.size)
    if isinstance(image, Rgbx):
        part: Pixels = Rgbx(np.ascontiguousarray(image.pixels[upper:lower, left:right]))
    else:
        part = image.crop((left, upper, right, lower))
    return Opened(part, part.size, (left, upper))


def as_rgbx(pixels: memoryview, size: Size) -> Rgbx:
    """Return the image of ``size`` whose RGBX pixels are in memory."""
    return Rgbx(np.frombuffer(pixels, np.uint8).reshape(size[1], size[0], 4))


def in_mode(image: Pixels, mode: Mode) -> Pixels:
    """Return an RGB image as one of ``mode``."""
    return image if mode == "RGB" else for_pillow(image).convert(mode)


def rows_of(image: Pixels) -> Iterator[bytes | memoryview]:
    """Yield the RGBX pixels of an RGB image, some rows at a time."""
    if isinstance(image, Rgbx):
        yield image.pixels.data.cast("B")
        return
    step = max(1, STRIP_PIXELS // image.width)
    for top in range(0, image.height, step):
        yield image.crop((0, top, image.width, min(top + step, image.height))).tobytes("raw", "RGBX")


def as_png(image: Pixels) -> bytes:
    """Return an image as PNG, packed quickly rather than well."""
    file = BytesIO()
    for_pillow(image).save(file, "PNG", compress_level=1)
    return file.getvalue()
