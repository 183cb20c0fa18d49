"""Objects from the raw outputs of detectors.

Scores, thresholds and suppression are those of Ultralytics' ``non_max_suppression``, of transformers'
``post_process_object_detection``, and of the graphs of TensorFlow's Object Detection API, which suppress themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightbox.base.errors import ModelFailed
from lightbox.codecs.activation import activated
from lightbox.model.options import ActivationName, DetectionsName
from lightbox.model.ranking import (
    BOXES,
    CLASSES,
    END_TO_END,
    NUMBER,
    SCORES,
    SIGMOIDS,
    Shapes,
    form_problem,
    form_sentence,
    names_of_detr,
)
from lightbox.model.spec import Array

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
_FRACTIONS = 4.0
"""Box centers that are all below this are fractions of the input: in pixels they would all lie in its corner."""
_OF_ROUNDING = 0.01
_MOST_SCORE = 1.1
"""Largest probability, with a margin for float16 and rounding."""


class Objects(NamedTuple):
    """The objects of one image, the best first."""

    classes: Int64
    """[K]"""
    scores: Float32
    """[K]"""
    boxes: Float32
    """[K, 4]: left, top, right, bottom, in pixels of the model's input."""

    def chosen(self, which: Int64 | slice) -> Objects:
        """Return a selection."""
        return Objects(self.classes[which], self.scores[which], self.boxes[which])


class Limits(NamedTuple):
    """Which of a model's boxes are objects: those with a score above ``score``.

    Of two boxes of the same class, or of any class if ``class_agnostic``, that overlap by more than ``iou``
    (intersection over union), only the one with the higher score remains. At most ``most`` objects remain.
    """

    score: float = 0.25
    iou: float = 0.7
    class_agnostic: bool = False
    most: int = 300
    activation: ActivationName | None = None


def find_objects(
    form: DetectionsName, outputs: Mapping[str, Array], size: tuple[int, int], limits: Limits
) -> list[Objects]:
    """Return the objects of each row of a batch, whose images have a ``size``: width, height.

    Raises ModelFailed for outputs of another form.
    """
    shapes: Shapes = {name: array.shape for name, array in outputs.items()}
    numbers = {name: array.astype(np.float32) for name, array in outputs.items() if array.dtype.kind in "iuf"}
    problem = form_problem(form, shapes) if len(numbers) == len(outputs) else form_sentence(form, shapes)
    if problem:
        raise ModelFailed(f"detections: {problem}")
    with np.errstate(all="ignore"):  # NaN is not an object
        if form == "ultralytics":
            (output,) = numbers.values()
            return [_of_ultralytics(row, size, limits) for row in output]
        if form == "detr":
            logits, boxes = (numbers[name] for name in names_of_detr(shapes) or ())
            by_sigmoids = limits.activation is None and 2 * np.count_nonzero(_are_of_sigmoids(logits))
            if by_sigmoids and by_sigmoids > logits[..., 0].size:
                raise ModelFailed(f"detections: most queries have negative logits only; {SIGMOIDS}")
            pairs = zip(logits, boxes, strict=True)
            rows: Iterable[Objects] = (_of_detr(*row, size, limits) for row in pairs)
        else:
            rows = _of_tensorflow(numbers, size)
        return [_best(row, limits).chosen(slice(limits.most)) for row in rows]


def _of_ultralytics(row: Float32, size: tuple[int, int], limits: Limits) -> Objects:
    if row.shape[1] == END_TO_END:
        boxes = _in_pixels(row[:, :4], row[:, :4], size)
        scores = activated(row[:, 4], "sigmoid") if limits.activation == "sigmoid" else row[:, 4]
        best = _best(Objects(_as_integers(row[:, 5]), scores.astype(np.float32, copy=False), boxes), limits)
        turned = np.flatnonzero((best.boxes[:, 2:] < best.boxes[:, :2]).any(axis=1))
        if 2 * len(turned) > len(best.scores):
            raise ModelFailed(
                "detections: expected corners of boxes for 'ultralytics'; the model gives centers and sizes"
            )
        return best.chosen(slice(limits.most))
    chances = activated(row[4:].T, limits.activation)
    least, most = chances.min(initial=0), chances.max(initial=0)
    if most > _MOST_SCORE or least < 1 - _MOST_SCORE:
        raise ModelFailed(
            "detections: expected scores of 0 to 1 for 'ultralytics', as of a detector's classes; the model gives "
            f"{most if most > _MOST_SCORE else least:.3g}; if they are logits, set the option activation"
        )
    classes = chances.argmax(axis=1) if row.shape[1] else np.zeros(0, np.int64)
    scores = chances.max(axis=1, initial=0)
    passed = scores > limits.score  # few of many: the rest need no corners
    boxes = _in_pixels(_corners(row[:4].T[passed]), row[:2], size)
    best = _best(Objects(classes[passed], scores[passed], boxes), limits)
    return best.chosen(_without_overlaps(best, limits))


def _in_pixels(boxes: Float32, places: Float32, size: tuple[int, int]) -> Float32:
    """Return boxes in pixels. Ultralytics' exports for LiteRT have fractions of the input, most others pixels."""
    are_fractions = not places.size or places.max() <= _FRACTIONS
    return boxes * np.array(size * 2, np.float32) if are_fractions else boxes


def _are_of_sigmoids(logits: Float32) -> npt.NDArray[np.bool_]:
    """Return for each query whether its logits say that it is nothing at all, which is a class of a softmax: all are
    negative, and no logarithms of probabilities."""
    found: npt.NDArray[np.bool_] = (logits.max(axis=-1) < 0) & (np.abs(np.exp(logits).sum(axis=-1) - 1) > _OF_ROUNDING)
    return found


def _of_detr(logits: Float32, boxes: Float32, size: tuple[int, int], limits: Limits) -> Objects:
    chances = activated(logits, limits.activation or "softmax").astype(np.float32, copy=False)
    places = _corners(boxes) * np.array(size * 2, np.float32)
    if limits.activation == "sigmoid":  # a query may be of several classes
        queries, classes = np.nonzero(chances > limits.score)
        return Objects(classes, chances[queries, classes], places[queries])
    chances = chances[:, :-1]  # the last class is "no object"
    classes = chances.argmax(axis=1) if chances.size else np.zeros(len(chances), np.int64)
    return Objects(classes, chances.max(axis=1, initial=0), places)


def _of_tensorflow(outputs: Mapping[str, Float32], size: tuple[int, int]) -> Iterator[Objects]:
    rows, slots = outputs[SCORES].shape
    counts = outputs[NUMBER].reshape(-1) if NUMBER in outputs else np.full(rows, slots, np.float32)
    if len(counts) != rows:
        raise ModelFailed(
            f"detections: expected {NUMBER} of [{rows}], one for each picture; the model gives {len(counts)}"
        )
    scale = np.array(size * 2, np.float32)
    for index, count in enumerate(_as_integers(counts.clip(0, slots))):
        seen = slice(max(0, count))
        boxes = outputs[BOXES][index][seen, [1, 0, 3, 2]] * scale
        yield Objects(_as_integers(outputs[CLASSES][index][seen]), outputs[SCORES][index][seen], boxes)


def _as_integers(values: Float32) -> Int64:
    """Return classes or counts; -1 for NaN and infinities."""
    return np.where(np.isfinite(values), values, -1).astype(np.int64)


def _corners(centered: Float32) -> Float32:
    """Convert center x, center y, width, height to left, top, right, bottom."""
    half = centered[:, 2:] / 2
    return np.concatenate([centered[:, :2] - half, centered[:, :2] + half], axis=1)


def _best(found: Objects, limits: Limits) -> Objects:
    """Return the objects with a score, a class and a box, the best first."""
    is_whole = (found.classes >= 0) & np.isfinite(found.boxes).all(axis=1)
    passed = np.flatnonzero(is_whole & (found.scores > limits.score))
    return found.chosen(passed[(-found.scores[passed]).argsort(kind="stable")])


def _without_overlaps(best: Objects, limits: Limits) -> Int64:
    """Return the indices of the objects that overlap no better one; the best object comes first."""
    left, top, right, bottom = best.boxes.T
    areas = (right - left) * (bottom - top)
    candidates, kept = np.arange(len(areas)), list[int]()
    while len(candidates) and len(kept) < limits.most:
        one, rest = candidates[0], candidates[1:]
        kept.append(int(one))
        width = np.minimum(right[rest], right[one]) - np.maximum(left[rest], left[one])
        height = np.minimum(bottom[rest], bottom[one]) - np.maximum(top[rest], top[one])
        shared = width.clip(0) * height.clip(0)
        overlaps = shared / (areas[rest] + areas[one] - shared) > limits.iou  # false if both have no area
        if not limits.class_agnostic:
            overlaps &= best.classes[rest] == best.classes[one]
        candidates = rest[~overlaps]
    return np.array(kept, np.int64)
