"""Decoded pixels as the compiled decoder leaves them and the compiled resize reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from PIL import Image


@dataclass(frozen=True)
class Rgbx:
    """A decoded image in memory: ``pixels`` uint8 [height, width, 4], of which the fourth byte says nothing."""

    pixels: npt.NDArray[np.uint8]

    @property
    def width(self) -> int:
        """Pixels from left to right."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Pixels from top to bottom."""
        return int(self.pixels.shape[0])

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, as Pillow has it."""
        return self.width, self.height

    @cached_property
    def image(self) -> Image.Image:
        """A copy for Pillow, mode RGB."""
        return Image.frombytes("RGB", self.size, self.pixels.data, "raw", "RGBX")
