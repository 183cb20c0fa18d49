"""YOLOv5's boxes have the chance that they hold anything, by which those of their classes are multiplied."""

from __future__ import annotations

import numpy as np

from unit.lightbox.heads.test_boxes import found


def test_the_best_class_of_a_box_counts_and_overlaps_are_one_object() -> None:
    rows = [
        [100, 100, 40, 20, 0.9, 0.1, 1],
        [102, 101, 40, 20, 1, 0, 0.8],  # the same object
        [102, 101, 40, 20, 1, 0.7, 0.6],  # another class
        [300, 200, 10, 10, 0.4, 0.5, 0.2],  # not above the threshold
        *[[300, 200, 10, 10, 0, 1, 1]] * 4,
    ]
    expected = [[(1, 0.9, [80, 90, 120, 110]), (0, 0.7, [82, 91, 122, 111])]]
    assert found("ultralytics-v5", y=np.array([rows], np.float32)) == expected
