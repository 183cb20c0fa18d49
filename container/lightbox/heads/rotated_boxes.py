"""Rotated boxes: their corners, and suppression by Ultralytics' likeness of normal distributions (ProbIoU)."""

from __future__ import annotations

import numpy as np

from lightbox.heads.objects import MOST_CANDIDATES, MOST_OBJECTS, Float32, Int64
from lightbox.model.options import ModelOptions
from lightbox.model_runtime.deadline import check_deadline

_ROWS_AT_ONCE = 64
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
    covariances, remains = _covariances(rotated), np.ones(count, np.bool_)
    for start in range(0, count, _ROWS_AT_ONCE):
        check_deadline()
        left = start + np.flatnonzero(remains[start:])
        if not len(left) or np.count_nonzero(remains[:start]) >= wanted:
            break
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, count))
        alike = _likeness(rotated, covariances, rows, left) > options.iou_threshold
        alike &= rows[:, None] < left
        if not options.class_agnostic:
            alike &= classes[rows, None] == classes[left]
        remains[left[alike.any(axis=0)]] = False
    return np.flatnonzero(remains)[:wanted]


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
