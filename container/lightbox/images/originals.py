"""The images of one request as a user's code sees them: upright RGB in their own size, decoded when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

from PIL.Image import Image

from lightbox.errors import TooLarge
from lightbox.images.decode import ImageLimits, decode_rgb, open_image
from lightbox.images.limits import MAX_PIXELS_SETTING
from lightbox.images.orientation import orientation_of, swaps_sides

Turn = Callable[[], AbstractContextManager[object]]
"""Entered around each decoding: lets a few through at once."""
OneOfBatch = Callable[[int, int], AbstractContextManager[object]]
"""Entered around each image with its place, from 0, and how many there are: names the one that fails."""


class OriginalImages:
    """Encoded images, decoded once, on first use. Raises what ``turn`` and ``one_of_batch`` raise, too."""

    def __init__(
        self,
        bodies: Callable[[], Sequence[bytes]],
        limits: ImageLimits,
        upright: bool,
        turn: Turn,
        one_of_batch: OneOfBatch,
    ) -> None:
        self._find_bodies = bodies
        self._limits = limits
        self._upright = upright
        self._turn = turn
        self._one_of_batch = one_of_batch

    @cached_property
    def _bodies(self) -> Sequence[bytes]:
        return self._find_bodies()

    @cached_property
    def images(self) -> list[Image]:
        """The images, mode RGB. Raises ImageUndecodable, and TooLarge for one or for all together."""
        self._check_together()
        found = []
        for index, body in enumerate(self._bodies):
            with self._one(index):
                found.append(self._decode(body))
        return found

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """(width, height) of each image, upright. Raises ImageUndecodable and TooLarge.

        Pixels of a JPEG are not decoded for it; of other images one at a time, and not kept.
        """
        return [image.size for image in self.images] if "images" in vars(self) else self._each_size(self._size)

    def _size(self, body: bytes, limits: ImageLimits) -> tuple[int, int]:
        image = open_image(body, limits)
        if image.format != "JPEG":  # other formats may tell the orientation after the pixels
            return self._decode(body).size
        width, height = image.size
        return (height, width) if self._upright and swaps_sides(orientation_of(image)) else (width, height)

    def _decode(self, body: bytes) -> Image:
        with self._turn():
            return decode_rgb(body, self._limits, apply_exif_orientation=self._upright)

    def _check_together(self) -> None:
        """All have as many pixels as one image may have: they are in memory together."""
        if len(self._bodies) < 2:
            return
        headers = self._each_size(lambda body, limits: open_image(body, limits).size)
        pixels = sum(width * height for width, height in headers)
        if pixels > self._limits.max_pixels:
            raise TooLarge(
                f"{len(headers)} images are {pixels:,} pixels together; "
                f"at most {self._limits.max_pixels:,} are accepted ({MAX_PIXELS_SETTING})"
            )

    def _each_size(self, read: Callable[[bytes, ImageLimits], tuple[int, int]]) -> list[tuple[int, int]]:
        found, pixels = [], 0
        for index, body in enumerate(self._bodies):
            with self._one(index):
                width, height = read(body, self._limits.after(pixels))
            found.append((width, height))
            pixels += width * height
        return found

    def _one(self, index: int) -> AbstractContextManager[object]:
        return self._one_of_batch(index, len(self._bodies))
