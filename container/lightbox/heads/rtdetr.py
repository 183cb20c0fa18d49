"""Objects as of Ultralytics' RT-DETR: boxes in fractions of the input, and probabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from typing_extensions import override

from lightbox.base.lazy_numpy import np
from lightbox.heads.boxes import as_integers, best, corners, most
from lightbox.heads.form import Form, Shapes, can_be
from lightbox.heads.objects import Float32, Objects
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

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return the objects of each row: [Q, 4+C], or, of newer exports, [K, 6] with score and class."""
        (output,) = outputs.values()
        found = []
        for row in output:
            places = corners(row[:, :OF_BOX]) * np.array(size * 2, np.float32)
            chances, numbers = row[:, OF_BOX:], row[:, OF_FOUND - 1 : OF_FOUND]
            if row.shape[1] == OF_FOUND and (numbers == np.floor(numbers)).all():  # probabilities of 2 classes are not
                one = Objects(as_integers(numbers[:, 0]), chances[:, 0], places)
            else:
                classes = chances.argmax(axis=1) if chances.size else np.zeros(len(chances), np.int64)
                one = Objects(classes, chances.max(axis=1, initial=0), places)
            found.append(best(one, options).chosen(slice(most(options))))
        return found
