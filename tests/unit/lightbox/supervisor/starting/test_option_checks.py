"""Options that the newest version of a model cannot follow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.option_checks import misfits
from lightbox.supervisor.starting.start_checks import find_problems, find_warnings
from support.models import copy_golden
from support.onnx_models import write_classifier
from support.parameters import each

from .test_start_checks import settings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "image_mean")
    copy_golden("half_plus_two", tmp_path / "half_plus_two")
    return tmp_path


def test_outputs_that_the_default_model_does_not_give(root: Path) -> None:
    wrong = settings(
        root, LIGHTBOX_OPTIONS='{"outputs": ["mean", "median"]}', SAGEMAKER_TFS_DEFAULT_MODEL_NAME="image_mean"
    )
    assert find_problems(wrong) == ["LIGHTBOX_OPTIONS: outputs: the model 'image_mean' gives mean; got median"]
    right = settings(root, LIGHTBOX_OPTIONS='{"outputs": ["mean"]}', SAGEMAKER_TFS_DEFAULT_MODEL_NAME="image_mean")
    assert find_problems(right) == []
    assert find_warnings(right) == ["LIGHTBOX_OPTIONS: outputs: the model 'half_plus_two' gives y; got mean"]


def test_outputs_of_a_models_own_file(root: Path) -> None:
    (root / "image_mean" / "code").mkdir()
    file = root / "image_mean" / "code" / "lightbox.json"
    file.write_text('{"outputs": ["median"]}')
    assert find_problems(settings(root)) == [f"{file}: outputs: the model 'image_mean' gives mean; got median"]


def test_a_scaling_that_the_pixels_cannot_have(root: Path) -> None:
    environ = {"LIGHTBOX_SCALING": "tf", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "image_mean"}
    (problem,) = find_problems(settings(root, **environ))
    assert problem.startswith("LIGHTBOX_SCALING: 'tf' makes fractions, but the model's input image is uint8")
    no_image, makes_fractions = find_problems(settings(root, LIGHTBOX_SCALING="tf"))  # it fits none of the models
    assert "LIGHTBOX_SCALING: works only with an input of pixels; the model takes x (float32 [-1])" in no_image
    assert "image_mean" in makes_fractions
    (root / "code").mkdir()
    (root / "code" / "inference.py").write_text("def handler(data, context): ...")
    assert find_problems(settings(root, **environ)) == []  # the handler may scale by itself


def test_a_setting_for_all_models_is_left_out_where_it_changes_nothing(root: Path) -> None:
    write_classifier(root / "colors" / "1" / "model.onnx")
    for environ, name, words in (
        (
            {"LIGHTBOX_ENGINE": "tensorflow"},
            "colors",
            "LIGHTBOX_ENGINE: 'tensorflow' does not open .*model.onnx; set 'auto'",
        ),
        (
            {"LIGHTBOX_SCALING": "unit", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "colors"},
            "half_plus_two",
            "LIGHTBOX_SCALING: ",
        ),
        (
            {"LIGHTBOX_OPTIONS": '{"fast_decode": true}'},
            "half_plus_two",
            "LIGHTBOX_OPTIONS: fast_decode: works only with",
        ),
    ):
        chosen = settings(root, **environ)
        assert find_problems(chosen) == []
        assert any(re.match(words, warning) and f"{name!r}" in warning for warning in find_warnings(chosen)), environ
    (refusal,) = find_problems(settings(root / "colors", LIGHTBOX_ENGINE="tensorflow"))  # it fits none
    assert refusal.startswith("LIGHTBOX_ENGINE: 'tensorflow' does not open ")


@each(
    ("options", "words"),
    [
        ({"image_size": "64x64"}, "image_size: expected 224x224 or none, as the input image is of this size"),
        ({"engine": "tensorflow"}, "engine: 'tensorflow' does not open "),
        ({"precision": "int8"}, "has no INT8 model: lightbox optimize makes one"),
        ({"precision": "bf16", "engine": "tensorflow"}, "engine: 'tensorflow' does not open "),
        ({"image_size": "224x224", "precision": "bf16", "engine": "auto"}, None),
    ],
)
def test_options_that_change_nothing_are_refused(tmp_path: Path, options: dict[str, str], words: str | None) -> None:
    """For the model's own as for those of all models, where it is the only one."""
    write_classifier(tmp_path / "colors" / "1" / "model.onnx")
    by_setting = find_problems(settings(tmp_path, LIGHTBOX_OPTIONS=json.dumps(options)))
    (tmp_path / "colors" / "code").mkdir()
    (tmp_path / "colors" / "code" / "lightbox.json").write_text(json.dumps(options))
    for problems in (by_setting, find_problems(settings(tmp_path))):
        assert len(problems) == (words is not None)
        assert words is None or words in problems[0]


def test_options_of_images_need_one(root: Path) -> None:
    (root / "half_plus_two" / "code").mkdir()
    (root / "half_plus_two" / "code" / "lightbox.json").write_text('{"preset": "timm", "precision": "bf16"}')
    images, precision = find_problems(settings(root, LIGHTBOX_ENGINE="tensorflow"))
    assert "preset: works only with an input of pixels; the model takes x (float32 [-1]): no image" in images
    assert "precision: 'bf16' is OpenVINO's, but the engine is tensorflow; set 'auto'" in precision


def test_the_options_for_all_models_are_read_for_a_file_too(tmp_path: Path) -> None:
    write_classifier(tmp_path / "plain.onnx")
    named = {"LIGHTBOX_MODELS": f"p={tmp_path / 'plain.onnx'}"}
    options = tmp_path / "code" / "lightbox.json"
    options.parent.mkdir()
    options.write_text('{"scaling": "unit"}')
    assert find_problems(settings(tmp_path, **named)) == []
    (problem,) = find_problems(settings(tmp_path / "others", **named))
    assert problem.startswith(f"{options} is not read for a model that is a file")


def test_options_of_images_may_be_meant_for_another_signature() -> None:
    def signature(name: str, dtype: str, *shape: int | None) -> SignatureSpec:
        return SignatureSpec(
            "m", 1, name, {"x": TensorSpec("x", dtype, shape)}, {"y": TensorSpec("y", "float32", None)}
        )

    files = signature("serving_default", "string", None)
    pixels = signature("pixels", "float32", None, 8, 8, 3)
    options = ModelOptions.model_validate({"scaling": "unit", "image_size": "8x8"})
    wrong = options.model_copy(update={"image_size": (9, 9)})
    for signatures, given, expected in (
        ([files], options, ["image_size", "scaling"]),
        ([files, pixels], options, []),
        ([files, pixels], wrong, ["image_size"]),
    ):
        named = {one.name: one for one in signatures}
        found = list(misfits("m", named, given, [], load_settings({})))
        assert sorted(one.key for one in found) == expected
        assert all(one.is_idle for one in found)
