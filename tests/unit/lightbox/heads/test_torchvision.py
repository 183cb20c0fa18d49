"""torchvision's detectors give the objects of one image, with the labels that it counts from 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lightbox.heads import outputs_problem
from lightbox.model.options import ModelOptions
from lightbox.model.spec import TensorSpec
from support.recipes import resolved, write_network
from unit.lightbox.heads.test_boxes import found

BOXES = {
    "boxes": np.array([[1, 2, 3, 4], [0, 0, 640, 480]]),
    "labels": np.array([3, 1]),
    "scores": np.array([0.2, 0.9]),
}


def test_objects_are_in_pixels_of_the_input() -> None:
    every = {"score_threshold": 0.0}
    assert found("torchvision", every, **BOXES) == [[(1, 0.9, [0, 0, 640, 480]), (3, 0.2, [1, 2, 3, 4])]]
    nothing = {name: value[:0] for name, value in BOXES.items()}
    assert found("torchvision", every, **nothing) == [[]]


def test_other_detectors_have_other_shapes(tmp_path: Path) -> None:
    """RT-DETR's own exporter uses the same names."""
    batch = {name: TensorSpec(name, "float32", (1, *value.shape)) for name, value in BOXES.items()}
    problem = outputs_problem(ModelOptions(detections="torchvision"), batch)
    assert problem == (
        "expected boxes of [K, 4], labels and scores of [K] for 'torchvision'; the model gives boxes [1,2,4], labels "
        "[1,2], scores [1,2]"
    )
    batches = {name: value[None] for name, value in BOXES.items()}
    assert resolved(write_network(tmp_path / "rt.onnx", batches)).recipe_source == ""


def test_an_input_of_fixed_size_leaves_the_fit_open(tmp_path: Path) -> None:
    opened = resolved(write_network(tmp_path / "open.onnx", BOXES, ("height", "width")))
    assert (opened.detections, opened.scaling, opened.score_threshold) == ("torchvision", "unit", 0)
    fixed = resolved(write_network(tmp_path / "fixed.onnx", BOXES))
    assert (fixed.detections, fixed.scaling) == (None, "unit")
    assert "returned as tensors: set fit, and detections to 'torchvision'" in fixed.recipe_said
