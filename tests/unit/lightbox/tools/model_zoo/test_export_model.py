import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lightbox.cli import main

pytestmark = pytest.mark.extended

WRITTEN = "assets.extra/weights.txt", "fingerprint.pb", "saved_model.pb"


@pytest.fixture
def out(sample_models: Path, tmp_path: Path) -> Path:
    """Return a writable copy of the digits model, with version 1."""
    return Path(shutil.copytree(sample_models / "digits", tmp_path / "digits"))


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export", *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def misuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export", *arguments]) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_an_empty_folder_gets_version_1_and_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "model"
    assert main(["export", "mobilenet_v2", "--weights", "none", "--input", "uint8", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["1", "code"]
    assert all((out / "1" / name).is_file() for name in WRITTEN)
    assert json.loads((out / "code" / "lightbox.json").read_text()) == {"scaling": "none"}
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].endswith(f"{out / '1'} is ready, random weights (seed 20180113)")
    assert "mobilenet_v2 has random weights" in said.err
    assert "predictions are meaningless" in said.err


@pytest.mark.parametrize("form", ["float32", "uint8", "bytes"])
@pytest.mark.parametrize("model", ["mobilenet_v2", "digits"])
def test_each_form_has_its_signature(request: pytest.FixtureRequest, signature: Any, model: str, form: str) -> None:
    root: Path = request.getfixturevalue(f"{model}_forms")[form]
    side, classes = {"mobilenet_v2": (224, 1000), "digits": (8, 10)}[model]
    name = {"float32": "input_tensor", "uint8": "image", "bytes": "image_bytes"}[form]
    (inputs,) = signature(root).structured_input_signature[1].values()
    assert inputs.name == name
    assert inputs.dtype.name == {"bytes": "string"}.get(form, form)
    assert inputs.shape.as_list() == ([None] if form == "bytes" else [None, side, side, 3])
    outputs = signature(root).structured_outputs
    assert {name: output.shape.as_list() for name, output in outputs.items()} == {"probabilities": [None, classes]}


def test_the_saved_model_holds_no_keras_objects_and_no_training(sample_models: Path) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel.FromString((sample_models / "digits" / "1" / "saved_model.pb").read_bytes())
    (graph,) = saved.meta_graphs
    assert set(graph.signature_def) == {"__saved_model_init_op", "serving_default"}
    objects = {node.user_object.identifier for node in graph.object_graph_def.nodes}
    assert not [name for name in objects if "keras" in name]
    operations = {node.op for function in graph.graph_def.library.function for node in function.node_def}
    assert "Conv2D" in operations
    assert not [name for name in operations if "Gradient" in name or "Dropout" in name or "Backprop" in name]


def test_a_present_version_is_not_replaced_unasked(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (out / "1" / "saved_model.pb").read_bytes()
    assert refusal(["digits", str(out)], capsys) == (
        f"Error: {out} has version 1 already: pass --version 2 to put a new one beside it, or --force to replace it"
    )
    assert "has version 1 already" in refusal(["digits", "--version", "1", str(out)], capsys)
    assert (out / "1" / "saved_model.pb").read_bytes() == before


def test_another_scaling_is_not_written_over_the_shared_one(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(["digits", "--input", "uint8", "--version", "2", str(out)], capsys)
    assert 'lightbox.json says "scaling": "unit" for every version of this model' in line
    assert 'this export needs "none": choose another folder, or pass --force' in line
    assert not (out / "2").exists()


def test_force_replaces_the_newest_version_and_keeps_other_settings(
    out: Path, monkeypatch: pytest.MonkeyPatch, trained_digits: Any
) -> None:
    monkeypatch.setattr("lightbox.tools.model_zoo.digits.trained_model", lambda: trained_digits)
    (out / "1").rename(out / "7")
    (out / "code" / "lightbox.json").write_text('{"scaling": "unit", "top_k": 3}')
    before = (out / "7" / "saved_model.pb").stat().st_ino
    assert main(["export", "digits", "--input", "uint8", "--force", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["7", "code"]
    assert (out / "7" / "saved_model.pb").stat().st_ino != before
    settings = json.loads((out / "code" / "lightbox.json").read_text())
    assert settings == {"scaling": "none", "top_k": 3}


def test_a_new_version_stands_beside_the_old_one(
    out: Path, monkeypatch: pytest.MonkeyPatch, trained_digits: Any
) -> None:
    monkeypatch.setattr("lightbox.tools.model_zoo.digits.trained_model", lambda: trained_digits)
    assert main(["export", "digits", "--version", "2", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["1", "2", "code"]


def test_settings_that_cannot_be_read_are_not_written_over(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = out / "code" / "lightbox.json"
    settings.write_text("{")
    assert f"{settings} is not JSON" in refusal(["digits", "--version", "2", str(out)], capsys)
    settings.write_text("[]")
    assert "must hold a JSON object, not []" in refusal(["digits", "--version", "2", str(out)], capsys)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "model"
    assert refusal(["digits", str(out)], capsys) == (f"Error: {out} cannot be made: {tmp_path / 'file'} is no folder")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["resnet", "OUT"], "'resnet' is not one of 'efficientnet_lite0'"),
        (["digits"], "Missing argument 'OUT'"),
        (["digits", "--input", "int8", "OUT"], "Invalid value for '--input': 'int8' is not one of"),
        (["digits", "--weights", "imagenet", "OUT"], "digits has no imagenet weights; it takes none"),
        (
            ["mobilenet_v2", "--weights", "coco", "OUT"],
            "mobilenet_v2 has no coco weights; it takes imagenet or none",
        ),
        (
            ["digits", "--version", "0", "OUT"],
            "Invalid value for '--version': 0 is not in the range x>=1",
        ),
        (["digits", "--version", "two", "OUT"], "Invalid value for '--version': 'two' is not a valid integer"),
        (["digits", "--archive", "F", "OUT"], "--archive gives efficientdet_d1 its published weights"),
        (
            ["efficientdet_d1", "--weights", "none", "--archive", "F", "OUT"],
            "it goes with no other model or weights",
        ),
    ],
)
def test_a_wrong_command_line_is_answered_with_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in misuse(arguments, capsys)
