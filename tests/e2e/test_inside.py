"""The transport ``inside``: workers run models themselves, and answer as the model server does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import requests
from onnx import numpy_helper

from support.model_files import dense, write_dense_as
from support.models import copy_golden
from support.patience import poll
from support.stack import Stack, running

X = [[0.5, -1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("dense", "renewed", "replaced"):
        write_dense_as(folder / name / "1" / "model.onnx")
    copy_golden("half_plus_two", folder / "half_plus_two")
    return folder


@pytest.fixture(scope="module")
def inside(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"LIGHTBOX_TRANSPORT": "inside,local", "SAGEMAKER_GUNICORN_WORKERS": "1"}  # one loads for all calls
    with running(models, tmp_path_factory.mktemp("run"), **environ) as stack:
        yield stack


def asked(stack: Stack, model: str, instances: Any = X, wire: str = "inside", more: str = "") -> requests.Response:
    named = f"tfs-model-name={model},tfs-transport={wire}{more}"
    body = json.dumps({"instances": instances}).encode()
    return stack.invoke(body, Content_Type="application/json", X_Amzn_SageMaker_Custom_Attributes=named)


def predicted(stack: Stack, model: str) -> Any:
    return asked(stack, model).json()["predictions"]


def wire_of(answer: requests.Response) -> str:
    return answer.headers["Server-Timing"].rpartition("wire;desc=")[2].strip('"')


def wait_until_inside(stack: Stack, model: str, version: int = 1) -> None:
    said = f"version {version} of the model '{model}' answers in this process"
    assert any(asked(stack, model).status_code == 200 and said in stack.log for _ in poll())


def test_workers_answer_as_the_model_server_does(inside: Stack) -> None:
    wait_until_inside(inside, "dense")
    here, there = (asked(inside, "dense", wire=wire) for wire in ("inside", "local"))
    assert (wire_of(here), wire_of(there)) == ("inside", "local")
    assert here.json() == there.json()
    np.testing.assert_allclose(here.json()["predictions"], dense(X), rtol=1e-5)


@pytest.mark.parametrize("instances", [[[1.0] * 5], [["a"] * 4], [], [[1e39, 0, 0, 0]]])
def test_what_fails_here_is_refused_as_there(inside: Stack, instances: list[Any]) -> None:
    wait_until_inside(inside, "dense")
    here, there = (asked(inside, "dense", instances, wire) for wire in ("inside", "local"))
    assert here.status_code == there.status_code == 400
    assert {**here.json(), "request_id": ""} == {**there.json(), "request_id": ""}
    assert asked(inside, "dense").status_code == 200


def test_what_tensorflow_runs_stays_in_the_model_server(inside: Stack) -> None:
    answer = asked(inside, "half_plus_two", [1.0])
    assert (answer.json(), wire_of(answer)) == ({"predictions": [3.5]}, "local")


def write_renewed(folder: Path, factor: float) -> Path:
    """Write the model with other weights."""
    write_dense_as(folder / "model.onnx")
    changed = onnx.load(folder / "model.onnx")
    (weights,) = changed.graph.initializer
    weights.CopyFrom(numpy_helper.from_array(factor * numpy_helper.to_array(weights), weights.name))
    onnx.save(changed, folder / "model.onnx")
    return folder


def test_a_new_version_takes_over_without_a_failed_request(inside: Stack, models: Path) -> None:
    wait_until_inside(inside, "renewed")
    old = asked(inside, "renewed").json()
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(wait_until_inside, inside, "renewed", 2)
        write_renewed(models / "new", -1).rename(models / "renewed" / "2")
        answers = []
        while not taken.done():
            answers.append(asked(inside, "renewed"))
    taken.result()
    assert {answer.status_code for answer in answers} == {200}
    last = asked(inside, "renewed")
    assert wire_of(last) == "inside"
    assert last.json() == asked(inside, "renewed", wire="local").json() != old
    assert asked(inside, "renewed", more=",tfs-model-version=1").json() == old


@pytest.mark.extended
def test_a_version_that_comes_again_with_other_files_answers_with_these(inside: Stack, models: Path) -> None:
    for factor in (2, 3):
        write_renewed(models / f"new-{factor}", factor).rename(models / "replaced" / "2")
        expected = dense(np.multiply(X, factor))
        assert any(np.allclose(predicted(inside, "replaced"), expected, rtol=1e-5) for _ in poll())
        assert any(wire_of(asked(inside, "replaced")) == "inside" for _ in poll())
        np.testing.assert_allclose(predicted(inside, "replaced"), expected, rtol=1e-5)
        (models / "replaced" / "2").rename(models / f"old-{factor}")
        assert any(np.allclose(predicted(inside, "replaced"), dense(X), rtol=1e-5) for _ in poll())
