"""The rescaling at the beginning of a graph."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from lightbox.model_files.layout import find_models
from lightbox.model_files.rescaling import onnx_rescaling
from lightbox.model_files.saved_model import input_rescaling
from lightbox.model_runtime.formats.onnx import steps
from lightbox.supervisor.starting.scaling_report import scaled_input
from support.models import copy_made
from support.onnx_models import write
from support.scaled_models import MAKER, said_of, save_all


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "models"
    copy_made("scaling_report", save_all, folder, MAKER)
    return folder


@pytest.mark.extended
@pytest.mark.parametrize("name", ["unit", "tf", "torch", "caffe", "small", "resized", "nested"])
def test_pixels_become_what_keras_makes_of_them(zoo: Path, name: str) -> None:
    (model,) = [model for model in find_models(zoo) if model.name == name]
    wanted = scaled_input(model)
    assert wanted is not None
    found = input_rescaling(zoo / name / "1", "serving_default", wanted.name)
    assert found.limits(0, 255) == pytest.approx(json.loads((zoo / f"{name}.json").read_text()), rel=1e-5)
    assert not found.unknown


@pytest.mark.extended
def test_a_graph_that_wants_small_pixels(zoo: Path) -> None:
    said = said_of(zoo, "small")
    assert ": this suits pixels 0..1; set scaling to unit; no file says how images are resized: " in said
    assert said.endswith("; compare: lightbox try small --image photo.jpg")
    assert said.startswith("warning: ")
    assert said_of(zoo, "small", LIGHTBOX_SCALING="unit").startswith("scaling of small: unit")


@pytest.mark.extended
@pytest.mark.parametrize(("name", "operation"), [("variable", "Mul"), ("fork", "Abs and Mul")])
def test_what_cannot_be_known_is_not_reported(zoo: Path, name: str, operation: str) -> None:
    for said in (said_of(zoo, name), said_of(zoo, name, LIGHTBOX_SCALING="tf")):
        assert said.startswith("scaling of ")
        assert f"cannot tell whether saved_model.pb rescales, as its first operation is {operation}," in said


def test_an_onnx_file_has_its_rescaling_in_nodes_and_constants(tmp_path: Path) -> None:
    """As tf2onnx and torch name what nodes give."""
    factors = numpy_helper.from_array(np.array([2, 4, 8], np.float32).reshape(3, 1, 1))
    nodes = [
        helper.make_node("Constant", [], ["onnx::Mul_1"], value=factors),
        helper.make_node("Cast", ["image:0"], ["cast:0"], to=1),
        helper.make_node("Mul", ["onnx::Mul_1", "cast:0"], ["onnx::Sub_2"]),
        helper.make_node("Sub", ["onnx::Sub_2", "one"], ["y"]),
        *[helper.make_node("Relu", [f"{number or 'y'}"], [f"{number + 1}"]) for number in range(300)],
    ]
    shape = ("FLOAT", [1, 3, 8, 8])
    file, one = tmp_path / "model.onnx", np.array(1, np.float32)
    write(file, nodes, {"image:0": shape}, {"300": shape}, {"one": one, "other": one})
    found = onnx_rescaling(file, "image:0")
    assert (found.scale, found.offset, found.followed_by) == ((2, 4, 8), (-1, -1, -1), "Relu")
    assert [step.gives for step in steps(file) if step.operation == "Constant"] == ["onnx::Mul_1", "one"]
