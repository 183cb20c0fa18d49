"""Models in formats other than SavedModel in the embedded server: which engine answers, with which results."""

from __future__ import annotations

from pathlib import Path

from support.model_files import write_dense_as
from support.model_server import ModelServer
from support.onnx_models import write_dense


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
    flags = (
        "--model_name=m",
        f"--model_base_path={tmp_path / 'm'}",
        "--engine=onnxruntime",
        "--max_num_load_retries=0",
    )
    with ModelServer(tmp_path / "server", *flags) as running:
        assert running.wait_end() == 255
        said = f"engine onnxruntime does not open {tmp_path / 'm' / '1' / 'model.tflite'}: use auto"
        assert said in running.stdout + running.stderr
