"""Content-Type and Accept through the app: routes, headers, methods and their errors."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

import numpy as np
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, signature
from support.parameters import each


def double(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"].astype("f4") * 2}


def two(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"b": inputs["x"] + 1, "a": inputs["x"]}


def labels(inputs: Mapping[str, Array]) -> dict[str, Array]:
    rows = len(inputs["inputs"])
    classes = np.empty((rows, 1), object)
    classes[:] = b"cat"
    return {"classes": classes, "scores": np.full((rows, 1), 0.5, "f4")}


@pytest.fixture(scope="module")
def transport() -> FakeTransport:
    fake = FakeTransport()
    floats = {"x": ("float32", (None, 2))}
    fake.serve(signature("double", floats, {"y": ("float32", (None, 2))}), double)
    fake.serve(signature("two", floats, {"a": ("float32", (None, 2)), "b": ("float32", (None, 2))}), two)
    fake.serve(mean_model(), channel_means)
    classes = {"classes": ("string", (None, None)), "scores": ("float32", (None, None))}
    fake.serve(signature("labels", {"inputs": ("string", (None,))}, classes), labels)
    return fake


@pytest.fixture(scope="module")
def client(transport: FakeTransport) -> FlaskClient:
    return fake_app(transport, dict.fromkeys(("double", "two", "mean", "labels"), ModelOptions())).test_client()


def post(client: FlaskClient, body: bytes | str, model: str = "double", **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    attributes = ", ".join(filter(None, [f"tfs-model-name={model}", named.pop("attributes", "")]))
    return client.post("/invocations", data=body, headers={"X-Amzn-SageMaker-Custom-Attributes": attributes, **named})


def npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_an_unservable_accept_is_refused_before_the_model_runs(transport: FakeTransport, client: FlaskClient) -> None:
    calls = len(transport.calls)
    for model, accept in (("double", "text/html"), ("two", "text/csv"), ("two", "application/x-npy;q=1, */*;q=0")):
        answer = post(client, "[[1, 2]]", model, Accept=accept)
        assert answer.status_code == 406, answer.get_data(as_text=True)
        assert "application/json" in answer.get_json()["error"]
    assert len(transport.calls) == calls


def test_an_unknown_content_type_names_what_is_read(client: FlaskClient) -> None:
    answer = post(client, "<x/>", Content_Type="application/xml")
    assert answer.status_code == 415
    for known in ("image/*", "application/json", "text/csv", "application/x-npy", "multipart/form-data"):
        assert known in answer.get_json()["error"]


@pytest.mark.parametrize(
    ("coding", "body", "status", "said"),
    [
        ("br", b"x", 415, "gzip, deflate or identity"),
        ("gzip", b"no gzip", 400, "not valid gzip"),
    ],
)
def test_a_compressed_body_that_cannot_be_read(
    client: FlaskClient, coding: str, body: bytes, status: int, said: str
) -> None:
    answer = post(client, body, Content_Encoding=coding)
    assert answer.status_code == status
    assert said in answer.get_json()["error"]


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("guess", "tfs-method: expected predict, classify or regress, got 'guess'"),
        ("regress", "expected a signature with one input and the output outputs"),
        ("classify", "tfs-method=classify and tfs-method=regress take examples"),
    ],
)
def test_a_method_that_does_not_fit(client: FlaskClient, method: str, said: str) -> None:
    answer = post(client, '{"instances": [1]}', "labels", attributes=f"tfs-method={method}")
    if method == "regress":
        answer = post(client, '{"examples": [{}]}', "labels", attributes="tfs-method=regress")
    assert answer.status_code == 400
    assert said in answer.get_json()["error"]


def test_error_bodies_never_echo_much(client: FlaskClient) -> None:
    noise = "\u2028<script>" * 10_000
    for body in (noise, json.dumps(noise), json.dumps({noise: 1}), json.dumps({"instances": [noise]})):
        answer = post(client, body, Content_Type="application/json")
        assert answer.status_code == 400
        assert answer.get_data(as_text=True).count("script") < 40


def test_a_signature_named_in_the_body_is_used() -> None:
    fake = FakeTransport()
    fake.serve(signature("net", {"x": ("float32", (None,))}, {"y": ("float32", (None,))}), double)
    client = fake_app(fake, {"net": ModelOptions()}).test_client()
    assert client.post("/invocations", data='{"signature_name": "", "instances": [1]}').status_code == 200
    answer = client.post("/invocations", data='{"signature_name": "other", "instances": [1]}')
    assert answer.status_code == 400
    assert "other" in answer.get_json()["error"]


@each("name", ["", "application/octet-stream", "application/x-www-form-urlencoded", "image/heic"])
def test_an_error_names_the_format_of_another_file(client: FlaskClient, name: str) -> None:
    headers = {"Content_Type": name} if name else {}
    answer = post(client, b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "mean", **headers)
    assert answer.status_code == 400
    assert answer.get_json()["code"] == "image_undecodable"
    assert "got HEIC, as iPhones save it: convert it to JPEG" in answer.get_json()["error"]
