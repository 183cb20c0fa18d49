"""Answers of Ultralytics' networks, before suppression or end to end: boxes, with masks, keypoints or an angle each."""

from __future__ import annotations

from abc import abstractmethod
from ast import literal_eval
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import ClassVar

from typing_extensions import override

from lightbox.heads.form import Form, Shape, Shapes, can_be
from lightbox.model.options import ModelOptions

MOST_LITERAL = 1 << 18
"""Most characters of a literal of Python in metadata: the parser takes some hundred bytes for each."""
OF_BOX, OF_FOUND = 4, 6
"""Numbers of an object before those of its classes, and end to end: a box, a score and a class."""
_RANK_OF_MAPS = 4
_TASKS = {
    "detect": ("plain boxes", "ultralytics"),
    "segment": ("masks", "ultralytics-segment"),
    "pose": ("poses", "ultralytics-pose"),
    "obb": ("rotated boxes", "ultralytics-obb"),
}
"""The answers of each task, and its option ``detections``."""


class Ultralytics(Form):
    """One output [N, 4+C+M, A], with M more numbers for each box, or [N, K, 6+M]."""

    task: ClassVar[str]
    other_rows: ClassVar[str] = "; rows of other values, such as an angle, look like classes"

    @abstractmethod
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        """Return how many numbers there are besides those of the box and the classes; None if it is not known."""

    def has_its_outputs(self, shapes: Shapes) -> bool:
        """Return whether these are as many outputs, of ranks of such networks."""
        return len(shapes) == 1

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        more, shape = self.more(shapes, options), shape_of_boxes(shapes)
        if not self.has_its_outputs(shapes) or not can_be(shape, (None, None, None)):
            return False
        return more is None or is_end_to_end(shape, more) or _is_raw(shape, more)

    @override
    def problem(self, outputs: Collection[str], notes: Mapping[str, str], options: ModelOptions) -> str | None:
        task = "pose" if "kpt_shape" in notes else notes.get("task", self.task)
        is_of_rtdetr = "RTDETR" in notes.get("head", "")
        if task == self.task and not is_of_rtdetr:
            return None
        gives, form = _TASKS.get(task, (f"answers of the task {task[:20]!r}", ""))
        gives, hint = ("RT-DETR's boxes", "") if is_of_rtdetr else (gives, f"; set {form!r}" if form else "")
        return f"expected a model that finds {_TASKS[self.task][0]}; by its metadata it gives {gives}{hint}"

    @override
    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        more, shape = self.more(shapes, options), shape_of_boxes(shapes)
        is_open = more is None or shape is None or None in shape[1:] or is_end_to_end(shape, more)
        return () if more is None or shape is None or shape[1] is None or is_open else (shape[1] - OF_BOX - more,)


class Boxes(Ultralytics):
    """Plain boxes."""

    task = "detect"
    expected = "one output of [N, 4+C, A] or [N, K, 6]"

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return 0

    @override
    def is_ambiguous(self, shapes: Shapes) -> bool:
        return not is_end_to_end(shape_of_boxes(shapes), 0)


class Segments(Ultralytics):
    """Boxes with coefficients of masks, and the common masks that they belong to."""

    task = "segment"
    expected = "outputs of [N, 4+C+M, A] or [N, K, 6+M], and of [N, M, H, W]"
    parts = ("mask",)

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return coefficients_of(shapes, options)

    @override
    def has_its_outputs(self, shapes: Shapes) -> bool:
        known = [shape for shape in shapes.values() if shape is not None]
        maps = sum(map(_are_maps, known))
        return len(shapes) == 2 and maps <= 1 <= maps + 2 - len(known) and can_be(known[0][:1], known[-1][:1])


class Poses(Ultralytics):
    """Boxes with keypoints."""

    task = "pose"
    expected = "one output of [N, 4+C+P*D, A] or [N, K, 6+P*D], for P keypoints of D numbers,"
    parts = ("keypoints",)

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return options.keypoints and options.keypoints[0] * options.keypoints[1]

    @override
    def problem(self, outputs: Collection[str], notes: Mapping[str, str], options: ModelOptions) -> str | None:
        if options.keypoints is None:
            return "expected the option keypoints: how many an object has, and numbers for each, as in [17, 3]"
        return super().problem(outputs, notes, options)


class RotatedBoxes(Ultralytics):
    """Boxes with an angle."""

    task = "obb"
    expected = "one output of [N, 4+C+1, A] or [N, K, 7]"
    parts = ("corners",)

    @override
    def more(self, shapes: Shapes, options: ModelOptions) -> int | None:
        return 1


def coefficients_of(shapes: Shapes, options: ModelOptions) -> int | None:
    """Return how many common masks there are, None if it is not known: the first dimension of each image's, or the last
    where only that fits the boxes, as in exports of TensorFlow."""
    shape, boxes = next(filter(_are_maps, shapes.values()), None), shape_of_boxes(shapes)
    if shape is None:
        return None
    if not boxes:
        return shape[1]
    rows = OF_BOX + len(options.labels or ())
    fitting = (
        count for count in (shape[1], shape[3]) if count and (is_end_to_end(boxes, count) or boxes[1] == rows + count)
    )
    return next(fitting, shape[1])


def names_in(notes: Mapping[str, str]) -> int | None:
    """Return the number of names of classes in the metadata, None if there are none."""
    if len(names := notes.get("names", "")) > MOST_LITERAL:
        return None
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return len(literal_eval(names)) or None
    return None


def shape_of_boxes(shapes: Shapes) -> Shape:
    """Return the shape of the output with boxes, not of common masks."""
    return next((shape for shape in shapes.values() if not _are_maps(shape)), ())


def _are_maps(shape: Shape) -> bool:
    return shape is not None and len(shape) == _RANK_OF_MAPS


def is_end_to_end(shape: Shape, more: int) -> bool:
    """Return whether the last dimension is that of objects after suppression, with ``more`` numbers each."""
    return shape is not None and len(shape) > 2 and shape[2] == OF_FOUND + more


def _is_raw(shape: Shape, more: int) -> bool:
    """Return whether there can be a row for each box side and class, and a column for each of many anchors.

    With fewer anchors than rows it is another form: end-to-end masks or poses, or YOLOv5's.
    """
    rows, anchors = shape[1:] if shape is not None else (None, None)
    return rows is None or (rows > OF_BOX + more and (not anchors or anchors >= rows))
