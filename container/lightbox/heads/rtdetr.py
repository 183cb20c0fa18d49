"""Objects as of Ultralytics' RT-DETR: boxes in fractions of the input, and probabilities."""

from __future__ import annotations

from collections.abc import Collection

from typing_extensions import override

from lightbox.heads.form import Form, Shapes, can_be
from lightbox.model.options import ModelOptions

OF_BOX, OF_FOUND = 4, 6
"""Numbers of a query before those of its classes, and of an object with one class."""


class RtDetr(Form):
    """A box with probabilities of all classes for each query, or with the best one and its number."""

    expected = "one output of [N, Q, 4+C] or [N, K, 6]"

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        shape = next(iter(shapes.values()), ())
        fits = len(shapes) == 1 and can_be(shape, (None, None, None))
        return fits and (shape is None or shape[2] is None or shape[2] > OF_BOX)

    @override
    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        (shape,) = shapes.values()
        return () if shape is None or shape[2] in (None, OF_FOUND) else (shape[2] - OF_BOX,)
