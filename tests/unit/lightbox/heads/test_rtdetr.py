"""Ultralytics' RT-DETR gives probabilities of all classes for each query or, in newer exports, the best one."""

from __future__ import annotations

import numpy as np

from unit.lightbox.heads.test_boxes import found


def test_queries_have_a_class_each() -> None:
    queries = np.array(
        [[[0.5, 0.5, 0.5, 0.5, 0.1, 0.7, 0.2], [0.25, 0.25, 0.5, 0.5, 0.9, 0, 0], [0.1] * 7]], np.float32
    )
    expected = [[(0, 0.9, [0, 0, 320, 240]), (1, 0.7, [160, 120, 480, 360])]]
    assert found("rtdetr", y=queries) == expected
    best = np.array([[[0.25, 0.25, 0.5, 0.5, 0.9, 0], [0.5, 0.5, 0.5, 0.5, 0.7, 1], [0.1] * 5 + [2]]], np.float32)
    assert found("rtdetr", y=best) == expected
    assert found("rtdetr", y=queries[..., :6]) == expected  # of two classes
