"""Boxes of TensorFlow's Object Detection API, whose graphs suppress overlaps themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from typing_extensions import override

from lightbox.heads.form import Form, Shapes, are_of_the_same, can_be
from lightbox.model.options import ModelOptions

BOXES, CLASSES, SCORES, NUMBER = "detection_boxes", "detection_classes", "detection_scores", "num_detections"
"""The outputs of such a detector; the last one is optional."""
T = TypeVar("T")


def is_detector(outputs: Collection[str]) -> bool:
    """Return whether outputs of these names are a detector's."""
    return {BOXES, CLASSES, SCORES} <= {*plainly(dict.fromkeys(outputs))}


def plainly(outputs: Mapping[str, T]) -> dict[str, T]:
    """Return outputs by name without TensorFlow's ``:0``, which converters keep."""
    return {name.removesuffix(":0"): item for name, item in outputs.items()}


class TensorFlow(Form):
    """``detection_boxes``, ``detection_classes`` and ``detection_scores``."""

    expected = f"{BOXES} of [N, K, 4], {CLASSES} and {SCORES} of [N, K]"

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        found = [plainly(shapes).get(name, ()) for name in (BOXES, CLASSES, SCORES)]
        wanted = ((None, None, 4), (None, None), (None, None))
        return all(map(can_be, found, wanted)) and are_of_the_same(found)
