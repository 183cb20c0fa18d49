"""One image that is opened late: a part of a body, or what a session keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, NamedTuple, Protocol, cast

from PIL import Image as Images
from PIL.Image import Image

from lightbox.errors import BadRequest
from lightbox.images.color import STRIP_PIXELS
from lightbox.images.jpeg import Rgbx
from lightbox.request_context import RequestContext

Mode = Literal["RGB", "L"]
Pixels = Image
Size = tuple[int, int]
"""Width and height."""
Opener = Callable[[Mode, Size | None], Image | Rgbx]
"""Gives an image of a mode; one that is to be resized to a size may come in a smaller one."""


class Open(Protocol):
    """Gives the pixels of a picture, upright; times the stage that it is. Raises what decoding raises."""

    def __call__(self, context: RequestContext, mode: Mode = "RGB", fast_size: Size | None = None) -> Image:
        """Return an image of ``mode``; with ``fast_size`` one that is larger than that, but may be reduced."""
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


def cut_from_rows(pixels: memoryview, size: Size, crop: Crop | None) -> Image:
    """Return an image, or a part of one, whose RGB pixels of ``size`` are in memory. Only the part is read."""
    left, upper, right, lower = crop.box(size) if crop else (0, 0, *size)
    stride = 3 * size[0]
    part = pixels[upper * stride + 3 * left : (lower - 1) * stride + 3 * right]
    # Pillow takes whatever has a buffer; its annotations do not say so.
    return Images.frombuffer("RGB", (right - left, lower - upper), cast("bytes", part), "raw", "RGB", stride, 1)


def rows_of(image: Image) -> Iterator[bytes]:
    """Yield the pixels of an RGB image, some rows at a time."""
    step = max(1, STRIP_PIXELS // image.width)
    for top in range(0, image.height, step):
        yield image.crop((0, top, image.width, min(top + step, image.height))).tobytes()


def as_png(image: Image) -> bytes:
    """Return an image as PNG, packed quickly rather than well."""
    file = BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()
