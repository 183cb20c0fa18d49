"""lightbox.load: the options that it refuses, as a start does, and the form of answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import lightbox
from lightbox.base.errors import StartError
from lightbox.cli import main
from support.fakes import png
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
    with pytest.raises(StartError, match=rf"{'lightbox.json: ' if from_file else '^'}{key}: "):
        lightbox.load(tmp_path / "colors", **({} if from_file else options))


def test_a_notebook_sees_arguments_and_images_in_its_words(tmp_path: Path) -> None:
    assert {"load", "Model"} <= set(dir(lightbox))
    write_classifier(tmp_path / "colors.onnx")
    for words, arguments in (
        ("^path: the model directory .*nosuch does not exist", {"path": tmp_path / "nosuch"}),
        ("^scalin: ", {"path": tmp_path / "colors.onnx", "scalin": "unit"}),
    ):
        with pytest.raises(StartError, match=words):
            lightbox.load(**arguments)
    model = lightbox.load(tmp_path / "colors.onnx", engine="openvino")
    assert repr(model) == "<lightbox.Model colors, version 1, engine openvino>"
    wrong: list[Any] = [5, None, np.zeros((8, 8, 3), np.float32), np.zeros((8, 8, 7), np.uint8), np.zeros(0, np.uint8)]
    for image, came in zip(
        wrong, ("int", "NoneType", "float32 [8, 8, 3]", "uint8 [8, 8, 7]", "uint8 [0]"), strict=True
    ):
        with pytest.raises(lightbox.BadRequest, match=re.escape(f"[height, width]; got {came}")):
            model.predict(image)


def test_predict_takes_a_picture_and_the_options_of_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_classifier(tmp_path / "colors.onnx")
    Path("names.txt").write_text("red\ngreen\nblue\n")
    Path("green.png").write_bytes(png(np.full((8, 8, 3), (0, 255, 0))))
    words = ["--to", "out.jsonl", "--labels", "names.txt", "--scaling", "unit", "--engine", "openvino"]
    assert main(["predict", "green.png", "--model", "colors.onnx", *words]) == 0
    (row,) = map(json.loads, Path("out.jsonl").read_text().splitlines())
    assert (row["path"], row["response"][0]["label"], row["engine"]) == ("green.png", "green", "openvino")
    assert main(["predict", "green.png", "--to", "a.csv", "--model", "nosuch"]) == 2
    assert "--model: the model directory " in capsys.readouterr().err


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
    with pytest.raises(StartError, match="by its metadata it gives rotated boxes; set 'ultralytics-obb'"):
        lightbox.load(tmp_path, detections="ultralytics")


def test_an_answer_has_a_row_for_a_picture_although_the_exporter_has_lost_it(tmp_path: Path) -> None:
    node = helper.make_node("GlobalAveragePool", ["x"], ["means"])
    nodes = [node, helper.make_node("Flatten", ["means"], ["y"])]
    write(tmp_path / "model.onnx", nodes, {"x": ("FLOAT", [1, 3, 8, 8])}, {"y": ("FLOAT", ["n", 3])})
    model = lightbox.load(tmp_path / "model.onnx", engine="openvino")
    assert model.predict(np.full((8, 8, 3), 7, np.uint8)) == [7, 7, 7]
