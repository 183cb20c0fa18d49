"""Boxes of TensorFlow's Object Detection API, whose graphs suppress overlaps themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from typing_extensions import override

from lightbox.base.errors import ModelFailed
from lightbox.base.lazy_numpy import np
from lightbox.heads.boxes import as_integers, best, most
from lightbox.heads.form import Form, Shapes, are_of_the_same, can_be
from lightbox.heads.objects import Float32, Objects
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

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return the objects of each row: boxes [K, 4] in fractions, upper side first, as many as there are."""
        found = plainly(outputs)
        (boxes, classes, scores), number = (found[name] for name in (BOXES, CLASSES, SCORES)), found.get(NUMBER)
        rows, slots = scores.shape
        counts = np.full(rows, slots, np.float32) if number is None else number.reshape(-1)
        if len(counts) != rows:
            raise ModelFailed(
                f"detections: expected {NUMBER} of [{rows}], one for each picture; the model gives {len(counts)}"
            )
        scale, rows_found = np.array(size * 2, np.float32), list[Objects]()
        for index, count in enumerate(as_integers(counts.clip(0, slots))):
            seen = slice(max(0, count))
            places = boxes[index][seen, [1, 0, 3, 2]] * scale
            row = Objects(as_integers(classes[index][seen]), scores[index][seen], places)
            rows_found.append(best(row, options).chosen(slice(most(options))))
        return rows_found
