"""Boxes with the chance that they hold anything, as of YOLOv5, YOLOv7 and YOLOX."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from typing_extensions import override

from lightbox.base.lazy_numpy import np
from lightbox.heads.boxes import best, corners, without_overlaps
from lightbox.heads.form import Form, Shapes, can_be
from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import ModelOptions

OF_BOX = 5
"""Numbers of a box before those of its classes: center, size, and whether it holds anything."""


class YoloV5(Form):
    """A row for each of many anchors."""

    expected = "one output of [N, A, 5+C]"

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        shape = next(iter(shapes.values()), ())
        if len(shapes) != 1 or not can_be(shape, (None, None, None)):
            return False
        anchors, numbers = shape[1:] if shape is not None else (None, None)
        return numbers is None or (numbers > OF_BOX and (anchors is None or anchors >= numbers))

    @override
    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        (shape,) = shapes.values()
        return () if shape is None or shape[2] is None else (shape[2] - OF_BOX,)

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return the objects of each row: [A, 5+C], in pixels of the input."""
        (output,) = outputs.values()
        found = []
        for row in output:
            passed = row[row[:, OF_BOX - 1] > options.score_threshold]  # few of many: no class is likelier than its box
            chances = passed[:, OF_BOX:] * passed[:, OF_BOX - 1 : OF_BOX]
            classes = chances.argmax(axis=1) if chances.size else np.zeros(len(chances), np.int64)
            one = best(Objects(classes, chances.max(axis=1, initial=0), corners(passed[:, : OF_BOX - 1])), options)
            found.append(one.chosen(without_overlaps(one, options)))
        return found
