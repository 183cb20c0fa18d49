"""Folders that MLflow saves, through the running stack."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from support.mlflow_folders import save_onnx, save_other, save_tensorflow
from support.model_files import dense
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, running

pytestmark = pytest.mark.extended

RECIPES = REPOSITORY / "tests" / "exports" / "recipes"

HALF = [2.5, 3.25]
"""The predictions of version 1 of the golden model for 1 and 2.5."""
X = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("models")
    save_onnx(folder / "dense")
    save_tensorflow(folder / "half", "half_plus_two")
    (folder / "half" / "code").mkdir()
    (folder / "half" / "code" / "lightbox.json").write_text('{"jsonlines": "document"}')
    save_tensorflow(folder / "old", "half_plus_two", "tfmodel")
    save_other(folder / "forest", "sklearn", "model.skops")
    shutil.copytree(RECIPES / "mlflow_zipmap", folder / "flowers")
    with running(folder, tmp_path_factory.mktemp("run")) as stack:
        yield stack


def predictions(stack: Stack, model: str, instances: Any) -> Any:
    named = {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={model}"}
    answer = requests.post(f"{stack.url}/invocations", json={"instances": instances}, headers=named, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Lightbox-Model"] == f"{model}/1"
    return answer.json()["predictions"]


def test_an_onnx_model_answers_with_its_weights_beside_it(saved: Stack) -> None:
    np.testing.assert_allclose(predictions(saved, "dense", X), dense(X), rtol=1e-5)


def test_a_classifier_of_scikit_learn_answers_as_mlflow_does(saved: Stack) -> None:
    """tests/exports/make_recipes_of_mlflow.py has saved it."""
    expected = json.loads((RECIPES / "mlflow_zipmap.json").read_text())
    found = predictions(saved, "flowers", expected["rows"])
    assert [row["output_label"] for row in found] == expected["labels"]
    scores = [list(one.values()) for one in expected["maps"]]
    np.testing.assert_allclose([row["output_probability"] for row in found], scores, atol=1e-6)


@pytest.mark.parametrize("model", ["half", "old"])
def test_a_saved_model_answers_by_the_folders_name(saved: Stack, model: str) -> None:
    assert predictions(saved, model, [1.0, 2.5]) == HALF


def test_a_flavor_that_is_not_served_is_reported(saved: Stack) -> None:
    assert "forest is not a model that can be served; " in saved.log
    assert "model.skops is a model of scikit-learn: skl2onnx makes an ONNX model" in saved.log
    index = requests.post(f"{saved.url}/v2/repository/index", timeout=PATIENCE).json()
    assert sorted(model["name"] for model in index) == ["dense", "flowers", "half", "old"]


def test_multi_model_mode_loads_such_a_folder(tmp_path: Path) -> None:
    models = tmp_path / "models"
    save_tensorflow(models / "half", "half_plus_two")
    save_other(models / "forest", "sklearn", "model.skops")
    with running(models, tmp_path / "run", SAGEMAKER_MULTI_MODEL="true") as stack:
        for name, status in (("half", 200), ("forest", 400)):
            asked = {"model_name": name, "url": str(models / name)}
            answer = requests.post(f"{stack.url}/models", json=asked, timeout=PATIENCE)
            assert answer.status_code == status, answer.text
        assert "model.skops is a model of scikit-learn" in answer.json()["error"]
        reply = requests.post(f"{stack.url}/models/half/invoke", json={"instances": [1.0, 2.5]}, timeout=PATIENCE)
        assert reply.json() == {"predictions": HALF}
