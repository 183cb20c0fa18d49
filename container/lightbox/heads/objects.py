"""The objects of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Float32: TypeAlias = "npt.NDArray[np.float32]"
Int64: TypeAlias = "npt.NDArray[np.int64]"
Which: TypeAlias = "Int64 | slice"
MOST_OBJECTS, MOST_CANDIDATES = 300, 30_000
"""Objects of an image, unless ``top_k`` says another number, and boxes that are compared, as in Ultralytics."""


class Masks(NamedTuple):
    """Maps over the model's input, of any resolution: an object is where its own, or the sum of common ones with a
    coefficient each, is above ``threshold``."""

    maps: Float32
    """[K, height, width], or [C, height, width] with coefficients."""
    coefficients: Float32 | None = None
    """[K, C]"""
    threshold: float = 0.0
    are_placed: bool = False  # each is in its place, where its box need not cut it, and may be empty

    def chosen(self, which: Which) -> Masks:
        """Return a selection."""
        if self.coefficients is None:
            return self._replace(maps=self.maps[which])
        return self._replace(coefficients=self.coefficients[which])


class Objects(NamedTuple):
    """The objects of one image, the best first, in pixels of the model's input. A form has none of some parts."""

    classes: Int64
    """[K]"""
    scores: Float32
    """[K]"""
    boxes: Float32
    """[K, 4]: left, top, right, bottom."""
    masks: Masks | None = None
    keypoints: Float32 | None = None
    """[K, P, 2 or 3]: x, y and, as the third number, a score."""
    rotated: Float32 | None = None
    """[K, 5]: the center's x and y, width, height, and the angle in radians; ``boxes`` enclose them."""

    def chosen(self, which: Which) -> Objects:
        """Return a selection."""
        return Objects(
            self.classes[which],
            self.scores[which],
            self.boxes[which],
            self.masks and self.masks.chosen(which),
            None if self.keypoints is None else self.keypoints[which],
            None if self.rotated is None else self.rotated[which],
        )
