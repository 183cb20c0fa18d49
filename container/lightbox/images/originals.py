"""The images of one request as a user's code sees them: upright RGB in their own size, decoded when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from PIL.Image import Image

from lightbox.images.decode import ImageLimits, decode_rgb, open_image
from lightbox.images.orientation import orientation_of, swaps_sides


class OriginalImages:
    """Encoded images, decoded once, on first use."""

    def __init__(self, bodies: Callable[[], Sequence[bytes]], limits: ImageLimits, upright: bool) -> None:
        self._find_bodies = bodies
        self._limits = limits
        self._upright = upright

    @cached_property
    def _bodies(self) -> Sequence[bytes]:
        return self._find_bodies()

    @cached_property
    def images(self) -> list[Image]:
        """The images, mode RGB. Raises ImageUndecodable and TooLarge."""
        return [decode_rgb(body, self._limits, apply_exif_orientation=self._upright) for body in self._bodies]

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """(width, height) of each image, upright. Pixels of a JPEG are not decoded for it. Raises as ``images``."""
        return [self._size(index) for index in range(len(self._bodies))]

    def _size(self, index: int) -> tuple[int, int]:
        if "images" not in vars(self):
            image = open_image(self._bodies[index], self._limits)
            if image.format == "JPEG":  # other formats may tell the orientation after the pixels
                width, height = image.size
                return (height, width) if self._upright and swaps_sides(orientation_of(image)) else (width, height)
        return self.images[index].size
