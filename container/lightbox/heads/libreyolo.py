"""Boxes as of libreyolo's exports, which are cut to the image before others that overlap them are left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from typing_extensions import override

from lightbox.base.lazy_numpy import np
from lightbox.heads.boxes import best, corners, without_overlaps
from lightbox.heads.form import Area, Form, Shapes, can_be
from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import ModelOptions


class LibreYolo(Form):
    """A row, or a column, for each of many anchors, which may be of several classes: YOLO9 and RTMDet."""

    expected = "one output of [N, 4+C, A] or [N, A, 4+C]"
    of_box: ClassVar[int] = 4
    """Numbers of a box before those of its classes: left, top, right and bottom."""

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        (shape,) = shapes.values() if len(shapes) == 1 else ((),)
        sides = [side for side in (shape or ())[1:] if side is not None]
        return can_be(shape, (None, None, None)) and all(side > self.of_box for side in sides)

    @override
    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        (shape,) = shapes.values()
        sides = [side for side in (shape or ())[1:] if side is not None]
        return (min(sides) - self.of_box,) if len(sides) == 2 else ()

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        (output,) = outputs.values()
        return self.objects_of_images(outputs, size, options, [(0, 0, *size)] * len(output))

    @override
    def objects_of_images(
        self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions, areas: Sequence[Area]
    ) -> list[Objects]:
        """Return the objects of each row, in pixels of the input. There are more anchors than numbers of each."""
        (output,) = outputs.values()
        if output.shape[1] < output.shape[2]:
            output = output.transpose(0, 2, 1)
        found = []
        for row, area in zip(output, areas, strict=True):
            objects = self._proposals(row, options)
            boxes = objects.boxes.clip(area[:2] * 2, area[2:] * 2).astype(np.float32)
            inside = np.flatnonzero((boxes[:, 2:] > boxes[:, :2]).all(axis=1))
            objects = best(objects._replace(boxes=boxes).chosen(inside), options)
            found.append(objects.chosen(without_overlaps(objects, options)))
        return found

    def _proposals(self, row: Float32, options: ModelOptions) -> Objects:
        anchors, classes = np.nonzero(row[:, self.of_box :] > options.score_threshold)
        return Objects(classes, row[anchors, self.of_box + classes], row[anchors, : self.of_box])


class LibreYoloX(LibreYolo):
    """A row for each of many anchors, with the chance that it holds anything."""

    expected = "one output of [N, A, 5+C]"
    of_box = 5
    """Center, size, and that chance."""

    @override
    def _proposals(self, row: Float32, options: ModelOptions) -> Objects:
        row = row[row[:, 4] > options.score_threshold]  # few of many: no class is likelier than its box
        chances = row[:, 5:] * row[:, 4:5]
        return Objects(chances.argmax(axis=1), chances.max(axis=1, initial=0), corners(row[:, :4]))
