"""Lightbox on Vertex AI and Cloud Run, configured by the platforms' variables alone."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import requests

from support.error_shape import assert_error
from support.fakes import png
from support.keys import HEALTH_ROUTE, bearer, key_line
from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, free_port

pytestmark = pytest.mark.extended

PREDICT_ROUTE = f"{HEALTH_ROUTE}:predict"
RED = png(np.full((8, 8, 3), (200, 0, 0)))
INSTANCE = {"b64": base64.b64encode(RED).decode()}
ANSWER = {"predictions": [[200.0, 0.0, 0.0]]}
UNSET = {"SAGEMAKER_BIND_TO_PORT": "", "LIGHTBOX_MODEL_DIR": ""}


@contextmanager
def started(folder: Path, port_variable: str, **environ: str) -> Iterator[Stack]:
    """Run a stack. A single variable sets its port; the variables in ``environ`` name its models."""
    port = free_port()
    with Stack(folder, folder, {**UNSET, port_variable: str(port), **environ}) as stack:
        stack.port = port
        stack.wait_ready()
        yield stack


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    copy_golden("image_mean", folder / "image_mean")
    return folder


@pytest.fixture(scope="module")
def vertex(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("vertex")
    environ = {
        "AIP_STORAGE_URI": models.as_uri(),
        "AIP_HEALTH_ROUTE": HEALTH_ROUTE,
        "AIP_PREDICT_ROUTE": PREDICT_ROUTE,
        "LIGHTBOX_OPENAPI": "true",
    }
    (folder / "keys").write_text(key_line("ci", "key-of-ci"))
    environ["LIGHTBOX_API_KEYS"] = str(folder / "keys")
    with started(folder, "AIP_HTTP_PORT", **environ) as stack:
        yield stack


def test_the_health_route_answers_whoever_asks(vertex: Stack) -> None:
    answer = requests.get(vertex.url + HEALTH_ROUTE, timeout=PATIENCE)
    assert (answer.status_code, answer.json()) == (200, {"ready": True})
    assert answer.headers["X-Amzn-RequestId"]
    wrong = requests.post(vertex.url + HEALTH_ROUTE, timeout=PATIENCE)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "GET")


def test_a_prediction_as_vertex_ai_sends_it(vertex: Stack) -> None:
    for body in ({"instances": [INSTANCE]}, {"instances": [INSTANCE], "parameters": {"threshold": 0.5}}):
        answer = requests.post(vertex.url + PREDICT_ROUTE, json=body, headers=bearer("ci"), timeout=PATIENCE)
        assert (answer.status_code, answer.json()) == (200, ANSWER)
    raw = vertex.invoke(RED, PREDICT_ROUTE, Content_Type="image/png", **bearer("ci"))
    assert (raw.status_code, raw.json()) == (200, ANSWER)
    assert raw.headers["X-Lightbox-Model"] == "image_mean/1"


def test_errors_and_methods_are_those_of_invocations(vertex: Stack) -> None:
    for path in (PREDICT_ROUTE, "/invocations"):
        damaged = vertex.invoke(b"{", path, Content_Type="application/json", **bearer("ci"))
        assert_error(damaged.status_code, damaged.headers, damaged.content, path, "malformed_body")
        got = requests.get(vertex.url + path, headers=bearer("ci"), timeout=PATIENCE)
        assert (got.status_code, got.headers["Allow"]) == (405, "POST")


def test_without_a_key_no_prediction(vertex: Stack) -> None:
    answer = vertex.invoke(RED, PREDICT_ROUTE, Content_Type="image/png")
    assert answer.status_code == 401


def test_the_routes_are_described(vertex: Stack) -> None:
    document = requests.get(f"{vertex.url}/openapi.json", headers=bearer("ci"), timeout=PATIENCE).json()
    predict, health = document["paths"][PREDICT_ROUTE]["post"], document["paths"][HEALTH_ROUTE]["get"]
    assert predict["requestBody"] == document["paths"]["/invocations"]["post"]["requestBody"]
    assert predict["tags"] == health["tags"] == ["Vertex AI"]
    assert health["security"] == []


def health_check(**environ: str) -> int:
    script = REPOSITORY / "container" / "healthcheck.sh"
    return subprocess.run([script], env={"PATH": os.environ["PATH"], **environ}, check=False).returncode


def test_the_images_health_check_knows_the_port(vertex: Stack) -> None:
    assert health_check(AIP_HTTP_PORT=str(vertex.port), PORT="1", K_SERVICE="photos") == 0
    assert health_check(PORT=str(vertex.port), K_SERVICE="photos") == 0
    assert health_check(SAGEMAKER_BIND_TO_PORT="1", AIP_HTTP_PORT=str(vertex.port)) == 1


def test_cloud_runs_port(models: Path, tmp_path: Path) -> None:
    with started(tmp_path, "PORT", K_SERVICE="photos", LIGHTBOX_MODEL_DIR=str(models)) as stack:
        answer = stack.invoke(RED, Content_Type="image/png")
        assert (answer.status_code, answer.json()) == (200, ANSWER)
        nobody = stack.invoke(RED, PREDICT_ROUTE, Content_Type="image/png")
        assert_error(nobody.status_code, nobody.headers, nobody.content, PREDICT_ROUTE, "route_not_found")
