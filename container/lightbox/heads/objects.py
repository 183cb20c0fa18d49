"""The objects of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Float32 = npt.NDArray[np.float32]
    Int64 = npt.NDArray[np.int64]
else:
    Float32 = Int64 = "ndarray"  # for annotations only: a start checks forms without numpy


class Objects(NamedTuple):
    """The objects of one image, the best first."""

    classes: Int64
    """[K]"""
    scores: Float32
    """[K]"""
    boxes: Float32
    """[K, 4]: left, top, right, bottom, in pixels of the model's input."""

    def chosen(self, which: Int64 | slice) -> Objects:
        """Return a selection."""
        return Objects(self.classes[which], self.scores[which], self.boxes[which])
