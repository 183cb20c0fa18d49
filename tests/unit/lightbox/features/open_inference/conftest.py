"""A fake model server with a model of image means and an identity for each datatype, and a client of the app."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app, mean_server, signature
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
