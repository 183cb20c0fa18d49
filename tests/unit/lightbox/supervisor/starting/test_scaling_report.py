"""The report about a model's pixel scaling. Keras or TensorFlow wrote each model of this module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightbox.model_files.layout import find_models
from lightbox.model_files.saved_model import input_rescaling
from lightbox.model_runtime.wire.protobuf import delimited
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.scaling_report import scaled_input, scaling_line
from lightbox.tools.model_zoo.export import quiet_tensorflow
from support.models import copy_golden, copy_made

pytestmark = pytest.mark.extended

MAKER = "tests/unit/lightbox/supervisor/starting/test_scaling_report.py"
NAMES = ("unit", "tf", "torch", "caffe", "plain", "small", "resized", "variable", "nested", "fork")


def save_all(folder: Path) -> None:
    """Export a model of each kind as ``folder/NAME/1``, with its scaled black and white pixels beside it."""
    quiet_tensorflow()
    import keras
    import numpy as np
    import tensorflow as tf

    layers, applications = keras.layers, keras.applications
    black_and_white = np.stack([np.zeros((8, 8, 3), np.float32), np.full((8, 8, 3), 255, np.float32)])

    class Preprocessing(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function

        def call(self, x: Any) -> Any:
            return self.function(x)

    def export(name: str, *first: Any) -> None:
        entry = x = keras.Input((8, 8, 3))
        for layer in first:
            x = layer(x)
        if first:
            pixels = keras.Model(entry, x).predict(black_and_white, verbose=0)
            limits = [float(pixels.min()), float(pixels.max())]
            (folder / f"{name}.json").write_text(json.dumps(limits))
        x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(x))
        keras.Model(entry, x).export(str(folder / name / "1"), verbose=False)

    folder.mkdir(parents=True, exist_ok=True)
    export("plain")
    export("unit", layers.Rescaling(1 / 255))
    export("tf", layers.Rescaling(1 / 127.5, offset=-1))
    export("torch", Preprocessing(applications.densenet.preprocess_input))
    export("caffe", Preprocessing(applications.resnet50.preprocess_input))
    export("small", layers.Normalization(mean=[0.485, 0.456, 0.406], variance=[0.0524, 0.0502, 0.0506]))
    export("resized", layers.Resizing(6, 6), layers.Rescaling(1 / 255))

    class Net(tf.Module):  # type: ignore[misc]
        def __init__(self, first: Any) -> None:
            self.factor = tf.Variable(0.5)
            self.first = first

        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, name="image")])  # type: ignore[untyped-decorator]
        def __call__(self, image: Any) -> dict[str, Any]:
            return {"y": self.first(self, image)}

    @tf.function  # type: ignore[untyped-decorator]
    def halved(x: Any) -> Any:
        return tf.stop_gradient(x / 127.5)

    def nested(net: Any, image: Any) -> Any:
        return tf.reduce_mean(halved(tf.identity(image)) - 1.0, axis=[1, 2])

    def by_variable(net: Any, image: Any) -> Any:
        return tf.reduce_mean(image * net.factor, axis=[1, 2])

    def fork(net: Any, image: Any) -> Any:
        return tf.reduce_mean(image * 2.0 + tf.abs(image), axis=[1, 2])

    for name, first in {"nested": nested, "variable": by_variable, "fork": fork}.items():
        tf.saved_model.save(Net(first), str(folder / name / "1"))
    (folder / "nested.json").write_text("[-1.0, 1.0]")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "models"
    copy_made("scaling_report", save_all, folder, MAKER)
    return folder


def said_of(root: Path, name: str, code: Path | None = None, **environ: str) -> str:
    (model,) = [model for model in find_models(root) if model.name == name]
    return str(scaling_line(model, [code or root / "code"], load_settings(environ)))


@pytest.mark.parametrize("name", ["unit", "tf", "torch", "caffe", "small", "resized", "nested"])
def test_pixels_become_what_keras_makes_of_them(zoo: Path, name: str) -> None:
    (model,) = [model for model in find_models(zoo) if model.name == name]
    wanted = scaled_input(model)
    assert wanted is not None
    found = input_rescaling(zoo / name / "1", "serving_default", wanted.name)
    assert found.limits(0, 255) == pytest.approx(json.loads((zoo / f"{name}.json").read_text()), rel=1e-5)
    assert not found.unknown


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
    assert said_of(zoo, name) == f"scaling of {name}: none, pixels 0..255 (the default); {words}"
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


def test_a_graph_that_wants_small_pixels(zoo: Path) -> None:
    advice = ": this suits pixels 0..1; set scaling to unit; compare: lightbox try small --image photo.jpg"
    assert said_of(zoo, "small").endswith(advice)
    assert said_of(zoo, "small").startswith("warning: ")
    assert said_of(zoo, "small", LIGHTBOX_SCALING="unit").startswith("scaling of small: unit")


@pytest.mark.parametrize(("name", "operation"), [("variable", "Mul"), ("fork", "Abs and Mul")])
def test_what_cannot_be_known_is_not_reported(zoo: Path, name: str, operation: str) -> None:
    for said in (said_of(zoo, name), said_of(zoo, name, LIGHTBOX_SCALING="tf")):
        assert said.startswith("scaling of ")
        assert f"cannot tell whether saved_model.pb rescales, as its first operation is {operation}," in said


def test_code_of_the_users_may_scale(zoo: Path, tmp_path: Path) -> None:
    (tmp_path / "inference.py").write_text("def handler(data, context): ...")
    said = said_of(zoo, "plain", tmp_path)
    assert said.startswith("scaling of plain: none")
    assert f"unless {tmp_path / 'inference.py'} scales by itself" in said


def rescaling_layer(**config: object) -> dict[str, object]:
    layers = [{"class_name": "InputLayer"}, {"class_name": "Rescaling", "config": config}]
    return {"class_name": "Functional", "config": {"layers": layers}}


@pytest.mark.parametrize("place", ["1/keras_metadata.pb", "config.json"])
def test_keras_metadata_beside_the_model(zoo: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "1").symlink_to(zoo / "plain" / "1")
    if place == "config.json":
        (tmp_path / "plain" / place).write_text(json.dumps(rescaling_layer(scale=0.5, offset=-1)))
        described = tmp_path / "plain" / place
    else:
        (tmp_path / "plain" / "1").unlink()
        (tmp_path / "plain" / "1").mkdir()
        (tmp_path / "plain" / "1" / "saved_model.pb").symlink_to(zoo / "plain" / "1" / "saved_model.pb")
        described = tmp_path / "plain" / place
        saved = delimited(3, b"root") + delimited(5, json.dumps(rescaling_layer(scale=0.5, offset=-1)).encode())
        described.write_bytes(delimited(1, delimited(5, b"no JSON")) + delimited(1, saved))
    said = said_of(tmp_path, "plain")
    assert said.startswith("scaling of plain: none"), "the two do not agree: which is right cannot be told"
    assert (
        f"no rescaling layer was found in saved_model.pb, the image goes to Conv2D; {described} names a layer" in said
    )
    assert said.endswith("Rescaling(scale=0.5, offset=-1)")


def test_damaged_metadata_says_nothing(zoo: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "1").symlink_to(zoo / "plain" / "1")
    (tmp_path / "plain" / "config.json").write_text("[" * 100_000)
    assert "no rescaling layer was found" in said_of(tmp_path, "plain")


def test_models_of_other_inputs_have_no_line(tmp_path: Path) -> None:
    for name in ("image_mean", "half_plus_two"):  # uint8 pixels; no image input
        copy_golden(name, tmp_path / name)
        assert said_of(tmp_path, name) == "None"
