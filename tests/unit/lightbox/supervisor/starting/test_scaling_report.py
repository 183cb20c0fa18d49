"""The report about a model's pixel scaling. Keras or TensorFlow wrote each model of this module."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.models import copy_golden, copy_made
from support.scaled_models import MAKER, said_of, save_all

pytestmark = pytest.mark.extended

NAMES = ("unit", "tf", "torch", "caffe", "plain", "small", "resized", "variable", "nested", "fork")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "models"
    copy_made("scaling_report", save_all, folder, MAKER)
    return folder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unit", "saved_model.pb itself makes 0..1 of 0..255"),
        ("tf", "saved_model.pb itself makes -1..1 of 0..255"),
        ("torch", "saved_model.pb itself makes -2.118..2.64 of 0..255"),
        ("caffe", "saved_model.pb itself makes -123.7..151.1 of 0..255"),
    ],
)
def test_a_graph_that_rescales_wants_no_scaling(zoo: Path, name: str, words: str) -> None:
    assumed = f"scaling of {name}: none, pixels 0..255 (the default); {words}"
    said = said_of(zoo, name)
    assert (
        said == f"{assumed}; no file says how images are resized: set resize, such as nearest for keras.utils.load_img"
    )
    assert said_of(zoo, name, LIGHTBOX_OPTIONS='{"resize": "nearest"}') == assumed
    twice = said_of(zoo, name, LIGHTBOX_SCALING="tf")
    assert twice.startswith(f"warning: scaling of {name}: tf, pixels -1..1 (LIGHTBOX_SCALING); {words}: ")
    assert "pixels are scaled twice" in twice


def test_a_graph_without_a_rescaling_layer_wants_a_scaling(zoo: Path, tmp_path: Path) -> None:
    assumed = "warning: scaling of plain: none, pixels 0..255 (the default); "
    assert said_of(zoo, "plain").startswith(
        f"{assumed}no rescaling layer was found in saved_model.pb, the image goes to Conv2D: few models"
    )
    file = tmp_path / "lightbox.json"
    for scaling, pixels in (("unit", "0..1"), ("none", "0..255")):  # set by the user: no warning
        file.write_text(json.dumps({"scaling": scaling}))
        assert said_of(zoo, "plain", tmp_path).startswith(
            f"scaling of plain: {scaling}, pixels {pixels} ({file}: scaling); no rescaling layer was found"
        )


def test_code_of_the_users_may_scale(zoo: Path, tmp_path: Path) -> None:
    (tmp_path / "inference.py").write_text("def handler(data, context): ...")
    said = said_of(zoo, "plain", tmp_path)
    assert said.startswith("scaling of plain: none")
    assert f"unless {tmp_path / 'inference.py'} scales by itself" in said


def test_models_of_other_inputs_have_no_line(tmp_path: Path) -> None:
    for name in ("image_mean", "half_plus_two"):  # uint8 pixels; no image input
        copy_golden(name, tmp_path / name)
        assert said_of(tmp_path, name) == "None"
