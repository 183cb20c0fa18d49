"""Queries become objects by a softmax or sigmoids, as the network was trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightbox.base.errors import ModelFailed
from lightbox.heads import find_objects, ranking_problem
from lightbox.model.options import ModelOptions
from lightbox.model.spec import TensorSpec
from support.parameters import each
from unit.lightbox.heads.test_boxes import SIZE, found
from unit.lightbox.heads.test_heads import PIXELS


def test_detrs_last_class_is_no_object() -> None:
    logits = np.log(np.array([[[0.7, 0.2, 0.1], [0.05, 0.05, 0.9], [0.3, 0.6, 0.1]]], np.float32))
    boxes = np.array([[[0.5, 0.5, 0.5, 0.5], [0.1] * 4, [0.25, 0.25, 0.5, 0.5]]], np.float32)
    expected = [[(0, 0.7, [160, 120, 480, 360]), (1, 0.6, [0, 0, 320, 240])]]
    assert found("detr", logits=logits, pred_boxes=boxes) == expected
    assert found("detr", y=boxes, z=logits) == expected
    four = np.log(np.array([[[0.7, 0.1, 0.1, 0.1]]], np.float32))
    assert found("detr", pred_boxes=boxes[:, :1], logits=four) == [[(0, 0.7, [160, 120, 480, 360])]]


def test_a_sigmoids_queries_are_of_several_classes_but_no_more_objects() -> None:
    logits = np.array([[[2, 1, -3], [1.5, -3, 3]]], np.float32)
    boxes = np.array([[[0.5, 0.5, 0.5, 0.5], [0.25, 0.25, 0.5, 0.5]]], np.float32)
    objects = found("detr", {"activation": "sigmoid"}, logits=logits, pred_boxes=boxes)
    assert objects == [[(2, 0.9526, [0, 0, 320, 240]), (0, 0.8808, [160, 120, 480, 360])]]


@each("classes", [1, 3, 80, 90])
@each("names", [("dets", "labels"), ("labels", "dets"), ("pred_logits", "pred_boxes"), ("a", "b")])
def test_classes_with_a_sigmoid_each_are_refused(classes: int, names: tuple[str, str]) -> None:
    """RF-DETR's names are refused at the start already, as are outputs that may both be boxes."""
    logits, boxes = np.full((1, 300, classes + 1), -5, np.float32), np.full((1, 300, 4), 0.5, np.float32)
    logits[0, 0, 0] = 2
    arrays = dict(zip(names, (logits, boxes) if names[0] != "dets" else (boxes, logits), strict=True))
    specs = {name: TensorSpec(name, "float32", array.shape) for name, array in arrays.items()}
    problem = ranking_problem(ModelOptions(detections="detr"), replace(PIXELS, outputs=specs))
    assert (problem is not None) is ("dets" in names or (names == ("a", "b") and classes == 3))
    with pytest.raises(
        ModelFailed, match="a sigmoid" if problem is None or "dets" in names else "expected two outputs"
    ):
        find_objects(arrays, SIZE, ModelOptions(detections="detr"))
