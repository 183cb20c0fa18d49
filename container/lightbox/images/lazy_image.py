"""A lazily opened image: a part of a body, or an image of a session."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, NamedTuple, Protocol

import numpy as np
from PIL.Image import Image

from lightbox.base.errors import BadRequest
from lightbox.base.request_context import RequestContext
from lightbox.images.color import STRIP_PIXELS
from lightbox.images.preparation import Size
from lightbox.images.resize import Rgbx, for_pillow

Mode = Literal["RGB", "L"]
Pixels = Image | Rgbx
Resized = Callable[[Size], Size]
"""Returns the size to which an image of a size will be resized."""


@dataclass(frozen=True)
class ToFit:
    """A ``Resized`` for images that are decoded at reduced scale only if they do not fit into memory whole."""

    resized: Resized

    def __call__(self, source: Size) -> Size:
        """Return the size to which an image will be resized."""
        return self.resized(source)


class Room(NamedTuple):
    """The memory for an image: its largest ``size`` in bytes, and the function that gets it before pixels are decoded.

    A later call replaces an earlier one's memory. It raises TooLarge and Unavailable.
    """

    size: float = math.inf
    hold: Callable[[int], object] = lambda size: None


WITHOUT_LIMIT = Room()


class Opened(NamedTuple):
    """An image's ``pixels``, and its ``size``, which is larger than theirs after decoding at reduced scale.

    A cropped part has its ``origin`` in the ``whole`` image.
    """

    pixels: Pixels
    size: Size
    origin: tuple[int, int] = (0, 0)
    whole: Size | None = None


Opener = Callable[[Mode, Resized | None], Opened]
"""Opens an image in a mode; an image that will be resized may be reduced."""


class Open(Protocol):
    """Returns the upright pixels of an image; times the stage. Raises as decoding does."""

    def __call__(self, context: RequestContext, mode: Mode = "RGB", resized: Resized | None = None) -> Opened:
        """Return an image of ``mode``; with ``resized`` it may be reduced, but stays larger than the later size."""
        ...


@dataclass(frozen=True)
class LazyImage:
    """An image by its pixels; ``original`` is its file, if the image is all of it."""

    open: Open
    original: bytes | None = None


class Crop(NamedTuple):
    """A part of an image, in pixels from its upper left corner."""

    x: int
    y: int
    width: int
    height: int

    def box(self, size: Size) -> tuple[int, int, int, int]:
        """Return left, upper, right and lower of the part; raise BadRequest unless it is inside ``size``."""
        right, lower = self.x + self.width, self.y + self.height
        if not (self.width and self.height and right <= size[0] and lower <= size[1]):
            raise BadRequest(
                f"tfs-crop: expected x,y,width,height of a part of the image, which is {size[0]}x{size[1]}; "
                f"got {','.join(map(str, self))}"
            )
        return self.x, self.y, right, lower


def cut(image: Pixels, crop: Crop) -> Opened:
    """Return a copy of a part of an image. Raises BadRequest for a part that is not inside it."""
    left, upper, right, lower = crop.box(image.size)
    if isinstance(image, Rgbx):
        part: Pixels = Rgbx(np.ascontiguousarray(image.pixels[upper:lower, left:right]))
    else:
        part = image.crop((left, upper, right, lower))
    return Opened(part, part.size, (left, upper), image.size)


def as_rgbx(pixels: memoryview, size: Size) -> Rgbx:
    """Return the image of ``size`` with RGBX pixels in memory."""
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
    """Return an image as PNG, with fast compression."""
    file = BytesIO()
    for_pillow(image).save(file, "PNG", compress_level=1)
    return file.getvalue()
