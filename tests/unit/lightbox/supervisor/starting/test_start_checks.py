"""Checks before a start: problems, warnings and accepted settings."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from lightbox.base.settings import Settings
from lightbox.features import wants
from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.model_files.layout import WEIGHTS_NOTE
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting import start_checks
from lightbox.supervisor.starting.option_checks import misfits
from lightbox.supervisor.starting.start_checks import find_lasting_problems, find_problems, find_warnings
from lightbox.tools.harness.ports import free_ports
from support.models import copy_golden
from support.onnx_models import write_classifier


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "image_mean")
    copy_golden("half_plus_two", tmp_path / "half_plus_two")
    return tmp_path


def settings(root: Path, **environ: str) -> Settings:
    base = {"LIGHTBOX_MODEL_DIR": str(root), "SAGEMAKER_BIND_TO_PORT": str(free_ports())}
    return load_settings(base | {"LIGHTBOX_MODEL_SERVER": "embedded"} | environ)


def problems_of(chosen: Settings) -> list[str]:
    """Return the problems, including the needs of the features."""
    return find_problems(chosen, wants=wants(chosen))


@pytest.mark.parametrize("variable", ["SAGEMAKER_BIND_TO_PORT", "LIGHTBOX_KSERVE_GRPC_PORT"])
def test_a_port_for_callers_that_a_model_server_is_to_have(root: Path, variable: str) -> None:
    low = free_ports(5)
    port = low + 2
    chosen = {"SAGEMAKER_SAFE_PORT_RANGE": f"{port - 1}-{port + 2}", variable: str(port)}
    assert problems_of(settings(root, **chosen)) == []
    (problem,) = problems_of(settings(root, **chosen, LIGHTBOX_TRANSPORT="rest"))
    expected = f"SAGEMAKER_SAFE_PORT_RANGE: port {port}, for REST of model server 0, is also the value of {variable}"
    assert problem == f"{expected}; choose another range or another port"
    beyond = {"SAGEMAKER_SAFE_PORT_RANGE": f"{port - 2}-{port + 2}", variable: str(port)}
    assert problems_of(settings(root, **beyond, LIGHTBOX_TRANSPORT="rest")) == []


def test_every_taken_port_of_a_range_is_a_sentence_of_its_own(root: Path) -> None:
    low = free_ports(4)
    with socket.create_server(("", low)), socket.create_server(("", low + 3)):
        own = {"SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + 3}", "SAGEMAKER_TFS_INSTANCE_COUNT": "2"}
        chosen = settings(root, **own, SAGEMAKER_MULTI_MODEL="true")
        assert find_problems(chosen) == [
            f"SAGEMAKER_SAFE_PORT_RANGE: port {low}, for gRPC of model server 0, is taken by another process",
            f"SAGEMAKER_SAFE_PORT_RANGE: port {low + 3}, for REST of model server 1, is taken by another process",
        ]


def test_one_line_for_what_two_models_share(root: Path) -> None:
    (root / "code").mkdir()
    (root / "code" / "lightbox.json").write_text("{")
    (problem,) = find_problems(settings(root))
    assert str(root / "code" / "lightbox.json") in problem


def test_what_hangs_on_a_refused_variable_is_not_judged(root: Path) -> None:
    nowhere = settings(root / "nowhere")
    assert len(find_problems(nowhere)) == 1
    assert find_problems(nowhere, {"LIGHTBOX_MODEL_DIR"}) == []


def test_code_that_universal_code_may_complete_is_not_judged_yet(root: Path) -> None:
    (root / "image_mean" / "code").mkdir()
    (root / "image_mean" / "code" / "lightbox.json").write_text('{"labels": "labels.txt"}')
    assert len(find_problems(settings(root))) == 1
    universal = {
        "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": "b",
        "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": "p",
    }
    assert find_problems(settings(root, **universal)) == []


def test_data_beside_a_model_is_reported_and_stops_nothing(root: Path) -> None:
    (root / "data" / "2024").mkdir(parents=True)
    (root / "data" / "2024" / "x.csv").touch()
    assert find_problems(settings(root)) == []
    (warning,) = find_warnings(settings(root))
    assert f"{root / 'data'} is not a model" in warning


def test_a_limit_that_cannot_hold_the_processes_and_a_request_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(root, SAGEMAKER_GUNICORN_WORKERS="2")
    monkeypatch.setattr(start_checks, "container_bytes", lambda: 400 << 20)
    (warning,) = find_warnings(chosen)
    assert warning.startswith("the container has 400 MiB of memory, and its processes with the models (0 MiB of files)")
    weights = root / "half_plus_two" / "2" / "weights"
    with weights.open("wb") as file:
        file.truncate(600 << 20)
    monkeypatch.setattr(start_checks, "container_bytes", lambda: 1 << 30)
    (warning,) = find_warnings(chosen)
    assert warning.startswith("the container has 1024 MiB of memory, and its processes with the models (600 MiB")
    weights.unlink()
    assert find_warnings(chosen) == []


def test_random_weights_are_reported_and_others_are_not(root: Path) -> None:
    for model, note in (
        ("image_mean", "random weights (seed 5): the predictions are meaningless"),
        ("half_plus_two", "Ours"),
    ):
        version = max((root / model).glob("*/saved_model.pb")).parent
        (version / WEIGHTS_NOTE).parent.mkdir(exist_ok=True)
        (version / WEIGHTS_NOTE).write_text(f"{note}\nmore\n")
    assert find_problems(settings(root)) == []
    assert find_warnings(settings(root)) == [
        "image_mean has random weights (seed 5): the predictions are meaningless",
    ]


def test_a_version_without_a_saved_model(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (root / "image_mean" / "9").mkdir()
    (problem,) = find_problems(settings(root))
    assert problem == f"LIGHTBOX_MODEL_DIR: {root / 'image_mean' / '9'} holds no saved_model.pb; the folder is empty"
    alone = tmp_path_factory.mktemp("alone")
    (alone / "2024").mkdir()
    assert f"LIGHTBOX_MODEL_DIR: {alone / '2024'} holds no saved_model.pb; the folder is empty" in find_problems(
        settings(alone)
    )


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


def test_ports_are_no_matter_of_what_lasts(root: Path) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        taken = settings(root, SAGEMAKER_BIND_TO_PORT=str(other.getsockname()[1]))
        assert len(find_problems(taken)) == 1
        assert find_lasting_problems(taken) == []


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image_size": "64x64"}, "image_size: expected 224x224 or none, as the input image is of this size"),
        ({"engine": "tensorflow"}, "engine: 'tensorflow' does not open "),
        ({"precision": "int8"}, "precision: 'int8' is for SavedModels"),
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
