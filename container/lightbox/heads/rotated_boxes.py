"""Rotated boxes: their corners, and suppression by Ultralytics' likeness of normal distributions (ProbIoU)."""

from __future__ import annotations

from lightbox.base.lazy_numpy import np
from lightbox.heads.objects import MOST_CANDIDATES, MOST_OBJECTS, Float32, Int64
from lightbox.model.options import ModelOptions
from lightbox.model_runtime.deadline import check_deadline

_BOXES_AT_ONCE, _ROWS_AT_ONCE = 512, 64
_TINY = 1e-7


def corners_of(rotated: Float32) -> Float32:
    """Return the corners [K, 4, 2] of rotated boxes, in Ultralytics' order."""
    center, (width, height, angle) = rotated[:, :2], rotated[:, 2:].T
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (width / 2)[:, None]
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=1) * (height / 2)[:, None]
    return np.stack(
        [center + along + across, center + along - across, center - along - across, center - along + across], 1
    )


def enclosing(corners: Float32) -> Float32:
    """Return the boxes [K, 4] that enclose corners [K, 4, 2]."""
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def without_rotated_overlaps(rotated: Float32, classes: Int64, options: ModelOptions) -> Int64:
    """Return the indices of the boxes that are like no better one of their class; the best comes first.

    Unlike among plain boxes, a box that is left out itself leaves out others, too, as in Ultralytics' ``fast_nms``.
    """
    rotated, wanted = rotated[:MOST_CANDIDATES], options.top_k or MOST_OBJECTS
    count, classes = len(rotated), classes[:MOST_CANDIDATES]
    covariances, kept, start = _covariances(rotated), np.zeros(0, np.int64), 0
    while start < count and len(kept) < wanted:
        left = np.arange(start, min(start + _BOXES_AT_ONCE, count))
        start += len(left)
        for first in range(0, start, _ROWS_AT_ONCE):
            check_deadline()
            rows, later = np.arange(first, min(first + _ROWS_AT_ONCE, start)), left[left > first]
            if not len(later):
                break
            alike = _likeness(rotated, covariances, rows, later) > options.iou_threshold
            alike &= rows[:, None] < later
            if not options.class_agnostic:
                alike &= classes[rows, None] == classes[later]
            left = np.append(left[left <= first], later[~alike.any(axis=0)])
        kept = np.append(kept, left)
    return kept[:wanted]


def _covariances(rotated: Float32) -> tuple[Float32, Float32, Float32]:
    """Return the variances in x and y, and the covariance, of each box as a normal distribution."""
    width, height = np.square(rotated[:, 2:4]).T / 12
    cos, sin = np.cos(rotated[:, 4]), np.sin(rotated[:, 4])
    return width * cos**2 + height * sin**2, width * sin**2 + height * cos**2, (width - height) * cos * sin


def _likeness(rotated: Float32, covariances: tuple[Float32, Float32, Float32], rows: Int64, others: Int64) -> Float32:
    """Return 1 less the Hellinger distance of each of ``rows`` to each of ``others``."""
    (a1, b1, c1), (a2, b2, c2) = ([values[which] for values in covariances] for which in (rows, others))
    dx, dy = (rotated[others, side] - rotated[rows, side, None] for side in (0, 1))
    a, b, c = (one[:, None] + other for one, other in ((a1, a2), (b1, b2), (c1, c2)))
    area = a * b - c * c
    apart = (a * dy * dy + b * dx * dx - 2 * c * dx * dy) / (area + _TINY) / 4
    own, others_own = (a1 * b1 - c1 * c1).clip(0), (a2 * b2 - c2 * c2).clip(0)
    shapes = np.log(area / (4 * np.sqrt(own[:, None] * others_own) + _TINY) + _TINY) / 2
    distance = (apart + shapes).clip(_TINY, 100)
    found: Float32 = 1 - np.sqrt(1 - np.exp(-distance) + _TINY)
    return found
