"""Boxes of Ultralytics' networks, before suppression or end to end."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Collection, Mapping
from contextlib import suppress

from typing_extensions import override

from lightbox.heads.form import Form, Shape, Shapes, can_be
from lightbox.model.options import ModelOptions

END_TO_END = 6
MOST_LITERAL = 1 << 18
"""Most characters of a literal of Python in metadata: the parser takes some hundred bytes for each."""
_OTHER_TASKS = {"obb": "rotated boxes", "pose": "poses", "segment": "masks", "classify": "classes of whole images"}
"""Tasks with other outputs than plain boxes."""


class Boxes(Form):
    """Plain boxes."""

    expected = "one output of [N, 4+C, A] or [N, K, 6]"
    other_rows = "; rows of other values, such as an angle, look like classes"

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        shape = next(iter(shapes.values())) if len(shapes) == 1 else ()
        return can_be(shape, (None, None, END_TO_END)) or (can_be(shape, (None, None, None)) and _is_raw(shape))

    @override
    def problem(self, outputs: Collection[str], notes: Mapping[str, str], options: ModelOptions) -> str | None:
        task = "pose" if "kpt_shape" in notes else notes.get("task", "")
        what = _OTHER_TASKS.get(task, "RT-DETR's boxes" if "RTDETR" in notes.get("head", "") else None)
        said = f"expected a model that finds plain boxes; by its metadata it gives {what}, which cannot be decoded yet"
        return said if what else None

    @override
    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        (shape,) = shapes.values()
        return (shape[1] - 4,) if shape and shape[1] is not None and shape[2] not in (None, END_TO_END) else ()


def names_in(notes: Mapping[str, str]) -> int | None:
    """Return the number of names of classes in the metadata, None if there are none."""
    if len(names := notes.get("names", "")) > MOST_LITERAL:
        return None
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return len(literal_eval(names)) or None
    return None


def _is_raw(shape: Shape) -> bool:
    """Return whether there can be a row for each box side and class, and a column for each of many anchors.

    With fewer anchors than rows it is another form: end-to-end masks or poses, or YOLOv5's.
    """
    rows, anchors = shape[1:] if shape is not None else (None, None)
    return rows is None or (rows > 4 and (not anchors or anchors >= rows))
