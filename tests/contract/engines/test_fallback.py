"""Models that OpenVINO runs in part, with TensorFlow for the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lightbox.model_runtime.engines.openvino.verdicts import IN_MODEL, OPENVINO, Key, Verdict, remember
from support.model_server import MODELS, ModelServer

pytestmark = pytest.mark.extended


def server(folder: Path, model: Path, *flags: str, engine: str = "auto", **options: Any) -> ModelServer:
    """Run a server with one model. ``model`` is its base path."""
    own = ["--model_name=m", f"--model_base_path={model}", f"--engine={engine}", "--max_num_load_retries=0"]
    return ModelServer(folder, *own, *flags, **options)


def has_tensorflow(running: ModelServer) -> bool:
    """Return whether the process has loaded TensorFlow's runtime."""
    return "libtensorflow_cc" in Path(f"/proc/{running.process.pid}/maps").read_text()


def copied(folder: Path, name: str = "half_plus_two/1") -> Path:
    """Return the base path of a copy of a recorded model, as version 1."""
    shutil.copytree(MODELS / name, folder / "model" / "1")
    return folder / "model"


def found_faster(model: Path) -> Path:
    """Store a verdict for OpenVINO: for a model that takes microseconds, a busy machine may not reach it."""
    verdict = {"serving_default": Verdict(OPENVINO, "faster", is_equal=True)}
    remember(model / "1" / IN_MODEL, Key.of(str(model / "1"), "f32"), verdict)
    return model


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ('{"instances": [NaN, Infinity, 1.0]}', '{"predictions":[NaN,Infinity,2.5]}'),
        ('{"instances": [3e38, 3e38, 3e38]}', '{"predictions":[1.5e+38,1.5e+38,1.5e+38]}'),
        ('{"instances": [[1.0], [2.0]]}', '{"predictions":[[2.5],[3.0]]}'),
    ],
    ids=["not_finite", "sum_not_finite", "another_shape"],
)
def test_what_openvino_may_not_answer_goes_to_tensorflow(tmp_path: Path, body: str, answer: str) -> None:
    """TensorFlow's bytes and errors are returned. OpenVINO answers the next request again."""
    model = found_faster(copied(tmp_path))
    with server(tmp_path / "a", model) as running, server(tmp_path / "t", model, engine="tensorflow") as reference:
        running.wait_ready()
        reference.wait_ready()
        assert reference.rest("POST", "/v1/models/m:predict", body) == (200, answer)
        assert running.rest("POST", "/v1/models/m:predict", body) == (200, answer)
        assert has_tensorflow(running)
        assert running.predict("m", instances=[1.0]) == (200, {"predictions": [2.5]})
