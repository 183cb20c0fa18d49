import json
from pathlib import Path

import pytest

from lightbox.cli import main

pytestmark = pytest.mark.extended

WRITTEN = "assets.extra/weights.txt", "fingerprint.pb", "saved_model.pb"


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
