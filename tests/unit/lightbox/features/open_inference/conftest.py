"""A fake model server with image means and an identity of each datatype, a client of the app, and the gRPC server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from lightbox.core.pipeline import Pipeline
from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app, mean_server, signature
from support.grpc_front import Caller, Watcher, make_pipeline, serving
from support.infer_requests import DTYPES


@pytest.fixture
def transport() -> FakeTransport:
    fake = mean_server()
    for dtype in (*DTYPES, "string"):
        fake.serve(
            signature(dtype, {"x": (dtype, (None, 2))}, {"y": (dtype, (None, 2)), "z": (dtype, (None, 2))}),
            lambda inputs: {"y": inputs["x"], "z": inputs["x"]},
        )
    return fake


@pytest.fixture
def client(transport: FakeTransport) -> FlaskClient:
    models = {name: ModelOptions() for name in ("mean", "string", *DTYPES)}
    return fake_app(transport, models, {"LIGHTBOX_MAX_BODY_MB": "1"}).test_client()


@pytest.fixture
def pipeline(transport: FakeTransport) -> Pipeline:
    return make_pipeline(transport, ["mean"])


@pytest.fixture
def call(pipeline: Pipeline, tmp_path: Path) -> Iterator[Caller]:
    with serving(pipeline, tmp_path) as caller:
        yield caller


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()
