"""Notes of RF-DETR's exporter in ONNX's metadata, or beside other files, become options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.model.options import RecipeError
from support.parameters import each
from support.recipes import resolved, write_network

SAID: dict[str, Any] = {
    **{"producer_version": "1.11.2", "task": "detect", "means": [0.5, 0.4, 0.3], "stds": [0.2, 0.2, 0.1]},
    **{"class_id_to_name": {"1": "cat", "3": "dog"}, "num_classes": 4, "num_select": 100},
}
OUTPUTS = {"dets": np.zeros((1, 30, 4)), "labels": np.zeros((1, 30, 5))}


def written(folder: Path, said: object) -> Path:
    return write_network(folder / "net.onnx", OUTPUTS, metadata={"rfdetr_inference": json.dumps(said)})


def test_a_detector_needs_no_options(tmp_path: Path) -> None:
    options = resolved(written(tmp_path, SAID))
    assert (options.fit, options.resize, options.scaling, options.mean) == (
        *("stretch", "tf_bilinear", "unit"),
        (0.5, 0.4, 0.3),
    )
    assert (options.detections, options.activation, options.score_threshold) == ("detr", "sigmoid", 0.5)
    assert (options.labels, options.top_k) == (("", "cat", "", "dog"), 100)
    assert options.recipe_source == "the metadata of net.onnx (RF-DETR 1.11.2)"


def test_other_formats_have_a_file_beside_them(tmp_path: Path) -> None:
    write_network(tmp_path / "net.onnx", OUTPUTS)
    (tmp_path / "net.onnx.rfdetr.json").write_text(json.dumps({"metadata": {**SAID, "task": "segment"}}))
    options = resolved(tmp_path / "net.onnx")
    assert (options.detections, options.std) == (None, (0.2, 0.2, 0.1))
    assert "segment, whose outputs are returned as tensors" in options.recipe_said


@each(
    ("said", "words"),
    [
        ([1], "expected an object of RF-DETR, got list"),
        ({**SAID, "class_id_to_name": ["cat"]}, "class_id_to_name: expected the numbers"),
        ({**SAID, "class_id_to_name": {"-1": "cat"}}, "class_id_to_name: expected the numbers"),
        ({**SAID, "num_classes": 10**9}, "at most 100,000 classes"),
        ({**SAID, "stds": [0, 1, 1]}, "std: expected numbers other than 0"),
        ({"text": "x" * (1 << 20)}, "rfdetr_inference: expected at most 1,048,576 characters"),
    ],
)
def test_what_cannot_be_followed_is_a_sentence(said: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=words):
        resolved(written(tmp_path, said))
