"""The rescaling at the beginning of a graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightbox.model_files.layout import find_models
from lightbox.model_files.saved_model import input_rescaling
from lightbox.supervisor.starting.scaling_report import scaled_input
from support.models import copy_made
from support.scaled_models import MAKER, said_of, save_all

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "models"
    copy_made("scaling_report", save_all, folder, MAKER)
    return folder


@pytest.mark.parametrize("name", ["unit", "tf", "torch", "caffe", "small", "resized", "nested"])
def test_pixels_become_what_keras_makes_of_them(zoo: Path, name: str) -> None:
    (model,) = [model for model in find_models(zoo) if model.name == name]
    wanted = scaled_input(model)
    assert wanted is not None
    found = input_rescaling(zoo / name / "1", "serving_default", wanted.name)
    assert found.limits(0, 255) == pytest.approx(json.loads((zoo / f"{name}.json").read_text()), rel=1e-5)
    assert not found.unknown


def test_a_graph_that_wants_small_pixels(zoo: Path) -> None:
    said = said_of(zoo, "small")
    assert ": this suits pixels 0..1; set scaling to unit; no file says how images are resized: " in said
    assert said.endswith("; compare: lightbox try small --image photo.jpg")
    assert said.startswith("warning: ")
    assert said_of(zoo, "small", LIGHTBOX_SCALING="unit").startswith("scaling of small: unit")


@pytest.mark.parametrize(("name", "operation"), [("variable", "Mul"), ("fork", "Abs and Mul")])
def test_what_cannot_be_known_is_not_reported(zoo: Path, name: str, operation: str) -> None:
    for said in (said_of(zoo, name), said_of(zoo, name, LIGHTBOX_SCALING="tf")):
        assert said.startswith("scaling of ")
        assert f"cannot tell whether saved_model.pb rescales, as its first operation is {operation}," in said
