"""Outputs that name their form become options."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.recipes import resolved, write_network


def test_the_names_of_outputs_tell_their_form(tmp_path: Path) -> None:
    dets, labels = np.zeros((1, 30, 4)), np.zeros((1, 30, 4))
    found = resolved(write_network(tmp_path / "rf.onnx", {"dets": dets, "labels": labels}))
    assert (found.detections, found.activation, found.resize) == ("detr", "sigmoid", "tf_bilinear")
    of_api = {"detection_boxes": dets, "detection_classes": dets[..., 0], "detection_scores": dets[..., 0]}
    assert resolved(write_network(tmp_path / "od.onnx", of_api, dtype="UINT8")).detections == "tf"
    assert resolved(tmp_path / "od.onnx", {"labels": ["a", "b"]}).detections is None  # as before
    assert resolved(write_network(tmp_path / "float.onnx", of_api)).detections is None
    of_mmdeploy = {"dets": np.zeros((1, 30, 5)), "labels": np.zeros((1, 30))}
    found = resolved(write_network(tmp_path / "mm.onnx", of_mmdeploy))
    assert (found.detections, found.recipe_source) == (None, "")


def test_maps_that_are_named(tmp_path: Path) -> None:
    """Recorded exports have open sides (test_recipes_of_maps.py)."""
    of_anomalib = {"pred_score": np.zeros((1,)), "pred_label": np.zeros((1,))}
    of_anomalib |= {"anomaly_map": np.zeros((1, 1, 64, 64)), "pred_mask": np.zeros((1, 1, 64, 64))}
    found = resolved(write_network(tmp_path / "padim.onnx", of_anomalib))
    assert (found.map, found.fit, found.resize, found.scaling) == ("anomaly", "stretch", "opencv_bilinear", "unit")
    both = {"out": np.zeros((1, 21, 64, 64)), "aux": np.zeros((1, 21, 64, 64))}
    found = resolved(write_network(tmp_path / "deeplab.onnx", both, ("height", "width")))
    assert (found.map, found.resize_shorter, found.outputs, found.top_k) == ("classes", 520, ("out",), None)
    assert resolved(write_network(tmp_path / "fixed.onnx", both)).map is None
    scores = {"out": np.zeros((1, 21))}
    assert resolved(write_network(tmp_path / "scores.onnx", scores, ("height", "width"))).map is None
