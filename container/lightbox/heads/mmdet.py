"""Boxes with their scores, and labels, as of MMDetection's exports and of OpenVINO's Training Extensions."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from lightbox.heads.boxes import as_integers, best, most
from lightbox.heads.form import Form, Shapes, are_of_the_same, can_be
from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import ModelOptions

_NUMBERS = 5
"""Sides of a box, and its score."""


class MmDet(Form):
    """Two outputs: boxes in pixels of the input, and the number of a class for each."""

    expected = "two outputs, boxes with scores of [N, K, 5] and labels of [N, K]"

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        names = names_of(shapes)
        return names is not None and are_of_the_same([shapes[name] for name in names])

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return the objects of each row: left, top, right, bottom and a score, and the number of a class."""
        names = names_of({name: array.shape for name, array in outputs.items()})
        assert names is not None, "they fit"
        boxes, labels = (outputs[name] for name in names)
        rows = (Objects(as_integers(of), row[:, 4], row[:, :4]) for row, of in zip(boxes, labels, strict=True))
        return [best(row, options).chosen(slice(most(options))) for row in rows]


def names_of(shapes: Shapes) -> tuple[str, str] | None:
    """Return the names of the boxes and of the labels, None if there are no such outputs."""
    boxes = [name for name, shape in shapes.items() if shape and can_be(shape, (None, None, _NUMBERS))]
    labels = [name for name, shape in shapes.items() if shape and can_be(shape, (None, None))]
    return (boxes[0], labels[0]) if len(shapes) == len(boxes) + len(labels) and boxes and labels else None
