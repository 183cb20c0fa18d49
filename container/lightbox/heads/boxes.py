"""Boxes of all forms: thresholds, corners, suppression."""

from __future__ import annotations

from lightbox.base.lazy_numpy import np
from lightbox.heads.objects import MOST_CANDIDATES, MOST_OBJECTS, Float32, Int64, Objects
from lightbox.model.options import ModelOptions
from lightbox.model_runtime.deadline import check_deadline

_ROWS_AT_ONCE = 64


def most(options: ModelOptions) -> int:
    """Return the most objects of an image."""
    return options.top_k or MOST_OBJECTS


def as_integers(values: Float32) -> Int64:
    """Return classes or counts; -1 for NaN and infinities."""
    return np.where(np.isfinite(values), values, -1).astype(np.int64)


def corners(centered: Float32) -> Float32:
    """Convert center x, center y, width, height to left, top, right, bottom."""
    half = centered[:, 2:] / 2
    return np.concatenate([centered[:, :2] - half, centered[:, :2] + half], axis=1)


def best(found: Objects, options: ModelOptions) -> Objects:
    """Return the objects with a score, a class and a box, the best first."""
    is_whole = (found.classes >= 0) & np.isfinite(found.boxes).all(axis=1)
    passed = np.flatnonzero(is_whole & (found.scores > options.score_threshold))
    return found.chosen(passed[(-found.scores[passed]).argsort(kind="stable")])


def without_overlaps(objects: Objects, options: ModelOptions) -> Int64:
    """Return the indices of the objects that overlap no better one; the best object comes first.

    Of two boxes of the same class, or of any class if ``class_agnostic``, that overlap by more than ``iou_threshold``
    (intersection over union), only the one with the higher score remains.
    """
    objects = objects.chosen(slice(MOST_CANDIDATES))
    left, top, right, bottom = objects.boxes.T
    areas, classes = (right - left) * (bottom - top), objects.classes
    remains, kept, start = np.ones(len(areas), np.bool_), list[int](), 0
    while len(kept) < most(options) and len(rest := start + np.flatnonzero(remains[start:])):
        check_deadline()
        rows = rest[:_ROWS_AT_ONCE]
        one = rows[:, None]
        width = np.minimum(right[rest], right[one]) - np.maximum(left[rest], left[one])
        height = np.minimum(bottom[rest], bottom[one]) - np.maximum(top[rest], top[one])
        shared = width.clip(0) * height.clip(0)
        overlaps = shared / (areas[rest] + areas[one] - shared) > options.iou_threshold  # false if both have no area
        if not options.class_agnostic:
            overlaps &= classes[rest] == classes[one]
        for number, row in enumerate(rows.tolist()):
            if remains[row]:
                kept.append(row)
                remains[rest[overlaps[number]]] = False
        start = int(rows[-1]) + 1
    return np.array(kept[: most(options)], np.int64)
