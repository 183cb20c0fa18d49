"""An image into its place in a batch, by one thread or, in bands of rows, by several at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from PIL.Image import Image

from lightbox.images.transform import Scaling, resize, to_tensor

_BAND_PIXELS = 100_000
"""Source pixels that take longer to resize than a thread takes to be woken, several times."""


class Resizer:
    """Resizes and scales images; safe to use from several threads."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._helpers = ThreadPoolExecutor(max(1, cores - 1), "resize")  # the caller's thread makes a band too

    def fill(self, image: Image, scaling: Scaling, out: npt.NDArray[np.generic], *, by_all_cores: bool) -> None:
        """Write an image, RGB or L, into ``out`` [height, width, channels], resized to that and scaled.

        Raises as to_tensor does. Pillow lets go of the interpreter while it resizes.
        """
        size = (out.shape[1], out.shape[0])

        def fill(rows: range) -> None:
            to_tensor(resize(image, size, rows), scaling, out.dtype, out=out[rows.start : rows.stop])

        mine, *others = bands(image, size, self._cores if by_all_cores else 1)
        helped = [self._helpers.submit(fill, rows) for rows in others]
        fill(mine)
        for band in helped:
            band.result()


def bands(image: Image, size: tuple[int, int], most: int) -> list[range]:
    """Cut the rows of a resized image into equal bands, at most ``most``, that can be made apart and at once.

    A power of two that divides the height: the cuts are then exact in the source, and the pixels those of the whole.
    """
    width, height = size
    count = 1
    while (
        2 * count <= most
        and height % (2 * count) == 0
        and image.width * image.height >= 2 * count * _BAND_PIXELS
        and image.size != (width, height)
        and _rows_first(image, width, height // (2 * count)) == _rows_first(image, width, height)
    ):
        count *= 2
    step = height // count
    return [range(start, start + step) for start in range(0, height, step)]


def _rows_first(image: Image, width: int, height: int) -> bool:
    """Tell whether Pillow brings the height down first, then the width; both round to 8 bits, so their order shows."""
    return image.height > height and image.height - height > 2 * (image.width - width)
