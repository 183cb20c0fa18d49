"""The comparison of OpenVINO with TensorFlow in a child process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino import canary
from lightbox.model_runtime.engines.openvino.verdicts import TENSORFLOW
from support.model_server import MODELS, ModelServer

pytestmark = pytest.mark.extended
COMPARED = "comparing OpenVINO with TensorFlow"


def server(folder: Path, model: Path, *flags: str, engine: str = "auto", **options: Any) -> ModelServer:
    """Run a server with one model. ``model`` is its base path."""
    own = ["--model_name=m", f"--model_base_path={model}", f"--engine={engine}", "--max_num_load_retries=0"]
    return ModelServer(folder, *own, *flags, **options)


def copied(folder: Path, name: str = "half_plus_two/1") -> Path:
    """Return the base path of a copy of a recorded model, as version 1."""
    shutil.copytree(MODELS / name, folder / "model" / "1")
    return folder / "model"


def test_servers_that_start_at_the_same_time_share_what_they_find_out(tmp_path: Path) -> None:
    model, cache = copied(tmp_path), tmp_path / "cache"
    flag = f"--engine_cache_dir={cache}"
    with server(tmp_path / "a", model, flag) as one, server(tmp_path / "b", model, flag) as other:
        for running in (one, other):
            running.wait_ready()
            assert running.predict("m", instances=[1.0]) == (200, {"predictions": [2.5]})
    with server(tmp_path / "c", model, flag) as later:
        assert COMPARED not in later.wait_ready().stderr


def test_what_ends_the_process_ends_the_comparison_alone() -> None:
    """OpenVINO aborts while it reads this model."""
    task = canary.Task(
        str(MODELS / "classify_regress" / "1"), ("serve",), ("serving_default", "regress"), "", Hardware(1, 1)
    )
    found = canary.judge(task)
    assert {verdict.engine for verdict in found.values()} == {TENSORFLOW}
    assert set(found) == {"serving_default", "regress"}
