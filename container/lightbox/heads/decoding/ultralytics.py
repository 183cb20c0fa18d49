"""Objects as of Ultralytics' ``non_max_suppression``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightbox.base.errors import ModelFailed
from lightbox.heads.activation import activated
from lightbox.heads.decoding.boxes import as_integers, best, corners, most, without_overlaps
from lightbox.heads.objects import Float32, Objects
from lightbox.heads.ultralytics import END_TO_END
from lightbox.model.options import ModelOptions

_FRACTIONS = 4.0
"""Box centers that are all below this are fractions of the input: in pixels they would all lie in its corner."""
_MOST_SCORE = 1.1
"""Largest probability, with a margin for float16 and rounding."""


def objects(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of each row: [4+C, A] before suppression, or [K, 6]."""
    (output,) = outputs.values()
    decode = _end_to_end if output.shape[2] == END_TO_END else _raw
    return [decode(row, size, options) for row in output]


def _end_to_end(row: Float32, size: tuple[int, int], options: ModelOptions) -> Objects:
    boxes = _in_pixels(row[:, :4], row[:, :4], size)
    scores = activated(row[:, 4], "sigmoid") if options.activation == "sigmoid" else row[:, 4]
    found = best(Objects(as_integers(row[:, 5]), scores.astype(np.float32, copy=False), boxes), options)
    turned = np.flatnonzero((found.boxes[:, 2:] < found.boxes[:, :2]).any(axis=1))
    if 2 * len(turned) > len(found.scores):
        raise ModelFailed("detections: expected corners of boxes for 'ultralytics'; the model gives centers and sizes")
    return found.chosen(slice(most(options)))


def _raw(row: Float32, size: tuple[int, int], options: ModelOptions) -> Objects:
    chances = activated(row[4:].T, options.activation)
    least, largest = chances.min(initial=0), chances.max(initial=0)
    if largest > _MOST_SCORE or least < 1 - _MOST_SCORE:
        raise ModelFailed(
            "detections: expected scores of 0 to 1 for 'ultralytics', as of a detector's classes; the model gives "
            f"{largest if largest > _MOST_SCORE else least:.3g}; if they are logits, set the option activation"
        )
    classes = chances.argmax(axis=1) if row.shape[1] else np.zeros(0, np.int64)
    scores = chances.max(axis=1, initial=0)
    passed = scores > options.score_threshold  # few of many: the rest need no corners
    boxes = _in_pixels(corners(row[:4].T[passed]), row[:2], size)
    found = best(Objects(classes[passed], scores[passed], boxes), options)
    return found.chosen(without_overlaps(found, options))


def _in_pixels(boxes: Float32, places: Float32, size: tuple[int, int]) -> Float32:
    """Return boxes in pixels. Ultralytics' exports for LiteRT have fractions of the input, most others pixels."""
    are_fractions = not places.size or places.max() <= _FRACTIONS
    return boxes * np.array(size * 2, np.float32) if are_fractions else boxes
