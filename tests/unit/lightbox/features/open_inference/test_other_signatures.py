"""Models without ``serving_default`` are ready. A sole signature is the default; of several, a request names one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, png
from support.grpc_front import make_pipeline, serving

RED = png(np.full((4, 4, 3), (200, 0, 0)))
INFER = {"inputs": [{"name": "image", "shape": [1, 4, 4, 3], "datatype": "UINT8", "data": [7] * 48}]}
NAMED = {"X-Amzn-SageMaker-Custom-Attributes": "tfs-signature-name=a"}


@pytest.fixture
def transport() -> FakeTransport:
    fake = FakeTransport()
    for model, names in (("hub", ["default"]), ("several", ["a", "b"])):
        for name in names:
            fake.serve(replace(mean_model(model, version=3), name=name), channel_means)
    return fake


@pytest.fixture
def client(transport: FakeTransport) -> FlaskClient:
    return fake_app(transport, {"hub": ModelOptions(), "several": ModelOptions()}).test_client()


@pytest.mark.parametrize("model", ["hub", "several"])
def test_they_are_ready(client: FlaskClient, transport: FakeTransport, tmp_path: Path, model: str) -> None:
    assert client.get(f"/v2/models/{model}/ready").get_json() == {"name": model, "ready": True}
    entry = {"name": model, "version": "3", "state": "READY", "reason": ""}
    assert entry in client.post("/v2/repository/index").get_json()
    with serving(make_pipeline(transport, [model]), tmp_path) as call:
        assert call("ModelReady", {"name": model}).ready
        assert [found.state for found in call("RepositoryIndex").models] == ["READY"]


def test_the_only_signature_answers(client: FlaskClient) -> None:
    described = client.get("/v2/models/hub").get_json()
    assert described["inputs"] == [{"name": "image", "datatype": "UINT8", "shape": [-1, 4, 4, 3]}]
    assert client.post("/v2/models/hub/infer", json=INFER).get_json()["outputs"][0]["data"] == [7, 7, 7]
    assert client.post("/invocations", data=RED).get_json() == {"predictions": [[200, 0, 0]]}


def test_one_of_several_is_named(client: FlaskClient) -> None:
    for answer in (client.get("/v2/models/several"), client.post("/v2/models/several/infer", json=INFER)):
        assert answer.status_code == 400
        assert "no signature 'serving_default'; it has a, b" in answer.get_json()["error"]
    assert client.post("/v2/models/several/infer", json=INFER, headers=NAMED).status_code == 200


def test_a_name_that_a_request_gives_is_kept_to(client: FlaskClient) -> None:
    answer = client.post("/v2/models/hub/infer", json=INFER, headers=NAMED)
    assert answer.status_code == 400
    assert "no signature 'a'; it has default" in answer.get_json()["error"]
