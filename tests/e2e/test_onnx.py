"""An ONNX model beside a SavedModel through the running stack, and a start that cannot serve it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from support.models import copy_golden
from support.onnx_models import write_dense
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, clean_environ, running

X = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    copy_golden("half_plus_two", folder / "half_plus_two")
    write_dense(folder / "dense" / "1" / "model.onnx")
    return folder


@pytest.fixture(scope="module")
def onnx_stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"LIGHTBOX_ENGINE": "auto", "LIGHTBOX_TFS_API": "true", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "dense"}
    with running(models, tmp_path_factory.mktemp("run"), **settings) as found:
        yield found


def test_every_route_answers_both(onnx_stack: Stack, models: Path, tmp_path: Path) -> None:
    weights = write_dense(tmp_path / "same.onnx")
    powers = np.exp(np.array(X, np.float32) @ weights)
    expected = powers / powers.sum(axis=1, keepdims=True)

    def post(path: str, **body: object) -> Any:
        answer = requests.post(f"{onnx_stack.url}{path}", json=body, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        return answer.json()

    np.testing.assert_allclose(post("/invocations", instances=X)["predictions"], expected, rtol=1e-5)
    np.testing.assert_allclose(post("/v1/models/dense:predict", instances=X)["predictions"], expected, rtol=1e-5)
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": X}
    (output,) = post("/v2/models/dense/infer", inputs=[tensor])["outputs"]
    np.testing.assert_allclose(np.reshape(output["data"], (2, 3)), expected, rtol=1e-5)
    assert post("/v1/models/half_plus_two:predict", instances=[1.0]) == {"predictions": [3.5]}


def test_the_engine_is_told(onnx_stack: Stack) -> None:
    told = requests.get(f"{onnx_stack.url}/v2/models/dense", timeout=PATIENCE).json()
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert "serving_default" in str(told["parameters"]["engines"])


@pytest.mark.parametrize("engine", ["", "tensorflow"])
def test_a_start_that_cannot_serve_it_names_the_setting(models: Path, engine: str) -> None:
    environ = clean_environ() | {"LIGHTBOX_MODEL_DIR": str(models)} | ({"LIGHTBOX_ENGINE": engine} if engine else {})
    done = subprocess.run(
        [REPOSITORY / "serve.sh", "serve"], env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    file = models / "dense" / "1" / "model.onnx"
    said = f"{file} is an ONNX model, which the engine tensorflow does not open; set LIGHTBOX_ENGINE=auto"
    assert said in done.stderr


def test_the_real_model_server_is_refused_with_the_setting(models: Path, tmp_path: Path) -> None:
    binary = tmp_path / "tensorflow_model_server"
    binary.write_text("#!/bin/sh\nexit 1\n")
    binary.chmod(0o755)
    found = clean_environ()
    environ = found | {"LIGHTBOX_MODEL_DIR": str(models), "PATH": f"{tmp_path}:{found['PATH']}"}
    done = subprocess.run(
        [REPOSITORY / "serve.sh", "serve"], env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "which tensorflow_model_server does not open; set LIGHTBOX_ENGINE=auto" in done.stderr
