"""lightbox.load: the options that it refuses, as a start does, and the form of answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import lightbox
from lightbox.base.errors import StartError
from support.onnx_models import write, write_classifier, write_patches

Tensors = dict[str, tuple[str, list[int | str]]]
UNFIT: dict[str, Any] = {
    "labels": ["background", "red", "green", "blue"],
    "detections": "tf",
    "outputs": ["probabilities"],
    "mean": [0.5, 0.5],
}


@pytest.mark.parametrize("key", UNFIT)
@pytest.mark.parametrize("from_file", [False, True])
def test_options_that_do_not_fit_the_model_are_refused(key: str, from_file: bool, tmp_path: Path) -> None:
    write_classifier(tmp_path / "colors" / "1" / "model.onnx")
    options = {key: UNFIT[key]}
    if from_file:
        (tmp_path / "colors" / "code").mkdir()
        (tmp_path / "colors" / "code" / "lightbox.json").write_text(json.dumps(options))
    with pytest.raises(StartError, match=rf"{'lightbox.json' if from_file else 'LIGHTBOX_OPTIONS'}: {key}: "):
        lightbox.load(tmp_path / "colors", **({} if from_file else options))


@pytest.mark.parametrize("batch", [1, "batch"])
def test_the_form_of_an_answer_does_not_depend_on_the_number_of_objects(batch: int | str, tmp_path: Path) -> None:
    write_patches(tmp_path / "model.onnx", batch)
    model = lightbox.load(tmp_path / "model.onnx", engine="openvino")
    pixels = np.zeros((8, 8, 3), np.uint8)
    for count in range(4):
        places = [[place, place] for place in range(count)]
        assert model.predict(pixels) == {"outputs": {"found": places}}
        pixels[2 * count : 2 * count + 2, 2 * count : 2 * count + 2] = 255


@pytest.mark.parametrize("beside", [False, True])
def test_what_the_exporter_says_about_a_file_counts(beside: bool, tmp_path: Path) -> None:
    """Ultralytics writes it into ONNX files, and beside others."""
    inputs: Tensors = {"images": ("FLOAT", [1, 3, 8, 8])}
    outputs: Tensors = {"output0": ("FLOAT", [1, 3 * 8, 8])}
    nodes = [helper.make_node("Reshape", ["images", "shape"], ["output0"])]
    notes = {} if beside else {"task": "obb"}
    write(tmp_path / "model.onnx", nodes, inputs, outputs, {"shape": np.array([1, 24, 8])}, metadata=notes)
    if beside:
        (tmp_path / "metadata.yaml").write_text("description: a\ntask: obb\nnames:\n  0: plane\n")
    with pytest.raises(StartError, match="by its metadata it gives rotated boxes, which cannot be decoded yet"):
        lightbox.load(tmp_path, detections="ultralytics")


def test_an_answer_has_a_row_for_a_picture_although_the_exporter_has_lost_it(tmp_path: Path) -> None:
    node = helper.make_node("GlobalAveragePool", ["x"], ["means"])
    nodes = [node, helper.make_node("Flatten", ["means"], ["y"])]
    write(tmp_path / "model.onnx", nodes, {"x": ("FLOAT", [1, 3, 8, 8])}, {"y": ("FLOAT", ["n", 3])})
    model = lightbox.load(tmp_path / "model.onnx", engine="openvino")
    assert model.predict(np.full((8, 8, 3), 7, np.uint8)) == [7, 7, 7]
