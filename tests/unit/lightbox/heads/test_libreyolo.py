"""libreyolo cuts boxes to the image before those that overlap are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lightbox.heads import FORMS, classes_problem, find_objects, outputs_problem
from lightbox.heads.form import Area
from lightbox.model.options import DetectionsName, ModelOptions
from lightbox.model.spec import TensorSpec

SIZE = (96, 96)
ROWS = [
    [10, 10, 30, 30, 0.9, 0.8],  # of two classes
    [12, 10, 30, 30, 0.7, 0.1],  # the same object
    [60, 10, 96, 30, 0.1, 0.6],
    [60, 10, 66, 30, 0.1, 0.5],  # the same, once both are cut at 64
    [70, 10, 96, 30, 0.9, 0.9],  # in the padding
    *[[0, 0, 9, 9, 0.2, 0.2]] * 3,
]


def objects(form: DetectionsName, rows: Any, areas: list[Area]) -> list[tuple[int, float, list[float]]]:
    options = ModelOptions(detections=form, iou_threshold=0.45)
    (found,) = find_objects({"output": np.array([rows], np.float32)}, SIZE, options, areas)
    boxes = zip(found.classes.tolist(), found.scores.tolist(), found.boxes.tolist(), strict=True)
    return [(number, round(score, 3), box) for number, score, box in boxes]


@pytest.mark.parametrize("rows", [ROWS, np.transpose(ROWS)], ids=["RTMDet", "YOLO9"])
def test_an_anchor_may_be_of_several_classes(rows: Any) -> None:
    cut = [(0, 0.9, [10, 10, 30, 30]), (1, 0.8, [10, 10, 30, 30]), (1, 0.6, [60, 10, 64, 30])]
    assert objects("libreyolo", rows, [(0, 0, 64, 96)]) == cut
    whole = objects("libreyolo", rows, [])
    assert (1, 0.5, [60, 10, 66, 30]) in whole
    assert (0, 0.9, [70, 10, 96, 30]) in whole


def test_yolox_has_the_chance_that_a_box_holds_anything() -> None:
    rows = [[20, 20, 20, 20, 0.9, 0.5, 1], [78, 20, 36, 20, 0.5, 1, 0], [63, 20, 6, 20, 0.4, 1, 0], *[[0] * 7] * 6]
    cut = [(1, 0.9, [10, 10, 30, 30]), (0, 0.5, [60, 10, 64, 30])]
    assert objects("libreyolo-yolox", rows, [(0, 0, 64, 96)]) == cut
    assert len(objects("libreyolo-yolox", rows, [])) == 3


def test_the_shorter_side_has_the_numbers() -> None:
    form, options = FORMS["libreyolo"], ModelOptions(detections="libreyolo", labels=("a",))
    shapes: Mapping[str, Any] = {"output": (None, 6, 189)}
    assert classes_problem(options, shapes) == "expected a label for each of the 2 classes, got 1"
    assert form.classes({"output": (None, 189, 6)}, options) == (2,)
    assert form.classes({"output": (None, None, None)}, options) == ()
    for shape in ((None, 4, 189), (None, 6)):
        assert outputs_problem(options, {"output": TensorSpec("output", "float32", shape)})
