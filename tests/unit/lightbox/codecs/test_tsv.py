"""Rows of numbers with tabs between them, in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from lightbox.model.options import ModelOptions
from lightbox.transports.fake import FakeTransport
from support.fakes import fake_app, signature

TSV = "text/tab-separated-values"


@pytest.fixture
def client() -> FlaskClient:
    transport = FakeTransport()
    net = signature("net", {"x": ("float32", (None, 2))}, {"y": ("float32", (None, 2))})
    transport.serve(net, lambda inputs: {"y": inputs["x"].astype("f4") / 2})
    return fake_app(transport, {"net": ModelOptions()}).test_client()


def ask(client: FlaskClient, body: bytes, **headers: str) -> Any:
    return client.post("/invocations", data=body, headers={"Content-Type": TSV, **headers})


def test_rows_in_and_out(client: FlaskClient) -> None:
    found = ask(client, b"1\t2\n-3\t1e1\n", Accept=TSV)
    assert (found.status_code, found.data) == (200, b"0.5\t1.0\n-1.5\t5.0\n")
    assert found.headers["Content-Type"] == f"{TSV}; charset=utf-8"


def test_rows_in_json_out(client: FlaskClient) -> None:
    assert ask(client, b"1\t2").json == {"predictions": [[0.5, 1.0]]}


@pytest.mark.parametrize("body", [b"1\tx", b"1\t2\n3", b"\xff\t1"])
def test_wrong_rows_are_400(client: FlaskClient, body: bytes) -> None:
    found = ask(client, body)
    assert (found.status_code, found.json["code"]) == (400, "malformed_body")


def test_an_output_of_numbers_alone(client: FlaskClient) -> None:
    assert np.float32(0.5) == float(ask(client, b"1\t2", Accept=TSV).data.split(b"\t")[0])
