"""Suppression of rotated boxes is that of Ultralytics' ``fast_nms``, written plainly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.heads.rotated_boxes import corners_of, without_rotated_overlaps
from lightbox.model.options import ModelOptions

number = st.floats(0, 40, width=16)
side = st.floats(1, 30, width=16)
box = st.tuples(number, number, side, side, st.floats(-0.75, 2.25, width=16))


def likeness(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the ProbIoU of two boxes by the formula of its paper (arXiv 2106.06072)."""

    def covariance(width: float, height: float, angle: float) -> Any:
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        return turn @ np.diag([width**2 / 12, height**2 / 12]) @ turn.T

    first, second = covariance(*one[2:]), covariance(*other[2:])
    mean, apart = (first + second) / 2, np.subtract(one[:2], other[:2])
    root = math.sqrt(np.linalg.det(first) * np.linalg.det(second))
    distance = apart @ np.linalg.inv(mean) @ apart / 8 + math.log(np.linalg.det(mean) / root) / 2
    return 1 - math.sqrt(max(0.0, 1 - math.exp(-distance)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(box, st.integers(0, 1)), min_size=1, max_size=90), st.booleans(), st.sampled_from([1, 300]))
def test_a_box_like_any_better_one_of_its_class_is_left_out(
    drawn: list[tuple[tuple[float, ...], int]], class_agnostic: bool, most: int
) -> None:
    boxes, classes = [one for one, _ in drawn], [kind for _, kind in drawn]
    threshold = 0.5
    alike = [[likeness(one, other) for one in boxes] for other in boxes]
    close = [value for row in alike for value in row if abs(value - threshold) < 1e-3]
    expected = [
        at
        for at in range(len(boxes))
        if not any(
            alike[at][before] > threshold and (class_agnostic or classes[at] == classes[before]) for before in range(at)
        )
    ]
    options = ModelOptions(iou_threshold=threshold, class_agnostic=class_agnostic, top_k=most)
    found = without_rotated_overlaps(np.array(boxes, np.float32), np.array(classes), options)
    assert close or found.tolist() == expected[:most]


def test_corners_turn_clockwise_on_the_screen() -> None:
    (corners,) = corners_of(np.array([[10, 20, 4, 2, math.pi / 2]], np.float32))
    np.testing.assert_allclose(corners, [[9, 22], [11, 22], [11, 18], [9, 18]], atol=1e-5)


@pytest.mark.parametrize("spread", [0.0, 600.0])
def test_many_boxes_in_bounded_time_and_memory(spread: float) -> None:
    """No array grows with the square of their number."""
    random = np.random.default_rng(1)
    boxes = np.full((20_000, 5), 9, np.float32)
    boxes[:, :2] = random.uniform(0, 1 + spread, (20_000, 2))
    found = without_rotated_overlaps(boxes, np.zeros(20_000, np.int64), ModelOptions())
    assert len(found) == (300 if spread else 1)
