"""Boxes with their scores, and labels, as of MMDetection's exports and of OpenVINO's Training Extensions."""

from __future__ import annotations

from typing_extensions import override

from lightbox.heads.form import Form, Shapes, are_of_the_same, can_be
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


def names_of(shapes: Shapes) -> tuple[str, str] | None:
    """Return the names of the boxes and of the labels, None if there are no such outputs."""
    boxes = [name for name, shape in shapes.items() if shape and can_be(shape, (None, None, _NUMBERS))]
    labels = [name for name, shape in shapes.items() if shape and can_be(shape, (None, None))]
    return (boxes[0], labels[0]) if len(shapes) == len(boxes) + len(labels) and boxes and labels else None
