"""Models in formats other than SavedModel in the embedded server: which engine answers, with which results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from support.model_files import dense, write_dense_as
from support.model_server import MODELS, ModelServer
from support.onnx_models import write_dense


def server(folder: Path, model: Path, *flags: str) -> ModelServer:
    own = ["--model_name=m", f"--model_base_path={model}", "--max_num_load_retries=0"]
    return ModelServer(folder, *own, *flags)


def test_the_file_shows_the_signature(tmp_path: Path) -> None:
    write_dense(tmp_path / "m" / "1" / "net.onnx")
    with server(tmp_path / "server", tmp_path / "m", "--engine=openvino") as running:
        running.wait_ready()
        status, body = running.rest("GET", "/v1/models/m/metadata")
        (name, reply), *others = json.loads(body)["metadata"]["signature_def"]["signature_def"].items()
        assert (status, name, others) == (200, "serving_default", [])
        assert reply["method_name"] == "tensorflow/serving/predict"
        assert reply["inputs"]["x"]["dtype"] == reply["outputs"]["y"]["dtype"] == "DT_FLOAT"
        assert [dim["size"] for dim in reply["inputs"]["x"]["tensor_shape"]["dim"]] == ["-1", "4"]
        for rows in (1, 3):
            given = np.linspace(-1, 1, 4 * rows, dtype=np.float32).reshape(rows, 4)
            status, answer = running.predict("m", instances=given.tolist())
            assert status == 200
            np.testing.assert_allclose(answer["predictions"], dense(given), rtol=1e-5)


def test_inputs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write_dense(tmp_path / "m" / "1" / "model.onnx")
    with server(tmp_path / "server", tmp_path / "m", "--engine=openvino") as running:
        running.wait_ready()
        assert running.predict("m", instances=[[1.0, 2.0, 3.0]])[0] == 400
        assert running.predict("m", instances=[[1.0, 2.0, 3.0, 4.0]])[0] == 200


def test_onnx_runtime_notes_nobody_and_nothing(tmp_path: Path) -> None:
    """ONNX Runtime's wheels can report models to their maker, and store machine and session details on disk first."""
    write_dense(tmp_path / "m" / "1" / "model.onnx")
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for folder in (home, temporary):
        folder.mkdir()
    environ = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(temporary), "CI": ""}
    flags = ("--model_name=m", f"--model_base_path={tmp_path / 'm'}", "--engine=onnxruntime")
    with ModelServer(tmp_path / "server", *flags, env=environ) as running:
        running.wait_ready()
        assert running.predict("m", instances=[[1.0, 2.0, 3.0, 4.0]])[0] == 200
        assert list(home.rglob("*")) == []
        assert list(temporary.rglob(".ses")) == []


def test_an_engine_that_does_not_open_it_says_which_setting_does(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "m" / "1" / "model.tflite")
    with server(tmp_path / "server", tmp_path / "m", "--engine=onnxruntime") as running:
        assert running.wait_end() == 255
        said = f"engine onnxruntime does not open {tmp_path / 'm' / '1' / 'model.tflite'}: use auto"
        assert said in running.stdout + running.stderr


def test_a_damaged_file_ends_the_load_alone(tmp_path: Path) -> None:
    file = tmp_path / "m" / "1" / "model.onnx"
    write_dense(file)
    file.write_bytes(file.read_bytes()[:-30])
    with server(tmp_path / "server", tmp_path / "m", "--engine=auto") as running:
        assert running.wait_end() == 255
        assert str(file.parent) in running.stdout


def test_saved_models_beside_it_are_answered_as_ever(tmp_path: Path) -> None:
    write_dense(tmp_path / "m" / "1" / "model.onnx")
    config = tmp_path / "config"
    config.write_text(
        "model_config_list {"
        f'config {{ name: "m" base_path: "{tmp_path / "m"}" model_platform: "tensorflow" }}'
        f'config {{ name: "half" base_path: "{MODELS / "half_plus_two"}" model_platform: "tensorflow" }}'
        "}"
    )
    with ModelServer(tmp_path / "server", f"--model_config_file={config}", "--engine=auto") as running:
        running.wait_ready()
        assert running.predict("half", instances=[1.0, 2.0]) == (200, {"predictions": [3.5, 4.0]})
        assert running.predict("m", instances=[[1.0, 2.0, 3.0, 4.0]])[0] == 200
