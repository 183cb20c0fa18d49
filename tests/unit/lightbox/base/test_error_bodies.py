"""No error body repeats long text of the caller, whichever part of the request contained it."""

from __future__ import annotations

import json

import pytest
from flask.testing import FlaskClient

from lightbox.base.errors import BadRequest
from lightbox.model.options import ModelOptions
from support.fakes import fake_app, mean_server
from support.parameters import each

MOST = 200
ATTRIBUTES, TARGET = "X-Amzn-SageMaker-Custom-Attributes", "X-Amzn-SageMaker-Target-Model"
LONG = ["A" * 3000, "A " * 1500, "A'" * 1500, 'A"' * 1500, "A\\" * 1500]
UNICODE = "猫" * 2000


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    return fake_app(mean_server(), {"mean": ModelOptions()}).test_client()


def echoed(body: str, text: str) -> int:
    """Return how many bytes of the caller's text the error message contains, as single letters or as one piece."""
    parsed = json.loads(body)
    message = parsed.get("error") or parsed["OriginalMessage"]
    letters = sum(len(letter.encode()) for letter in message if letter == text[0])
    pieces = (text[start : start + length] for length in range(len(message), 0, -1) for start in (0, 1))
    return max(letters, len(next((piece for piece in pieces if piece in message), "").encode()))


@each("text", LONG)
@each("header", ["Content-Type", "Accept", "Content-Encoding", TARGET])
def test_headers(client: FlaskClient, header: str, text: str) -> None:
    answer = client.post("/invocations", data=b"{}", headers={"Content-Type": "application/json", header: text})
    assert answer.status_code >= 400
    assert echoed(answer.text, text) <= MOST


@each("text", LONG)
@each("name", ["model-name", "model-version", "method", "signature-name", "transport"])
def test_custom_attributes(client: FlaskClient, name: str, text: str) -> None:
    headers = {"Content-Type": "application/json", ATTRIBUTES: f"tfs-{name}={text}"}
    for path in ("/invocations", "/endpoints/e/invocations"):
        answer = client.post(path, data=b'{"instances": [1]}', headers=headers)
        assert answer.status_code >= 400
        assert echoed(answer.text, text) <= MOST


@each("text", [*LONG, UNICODE])
def test_paths(client: FlaskClient, text: str) -> None:
    assert echoed(client.get("/" + text).text, text) <= MOST


@each("text", [*LONG, UNICODE])
@each(
    "shape", [lambda t: {"inputs": {t: 1}}, lambda t: {"instances": [t]}, lambda t: {"signature_name": t, "inputs": 1},
              lambda t: {"instances": [{t: 1, t + "b": 2}]}, lambda t: {t: 1}]
)  # fmt: skip
def test_json(client: FlaskClient, shape: object, text: str) -> None:
    assert callable(shape)
    answer = client.post("/invocations", json=shape(text))
    assert answer.status_code >= 400
    assert echoed(answer.text, text) <= MOST


@each("text", LONG[:2])
def test_csv(client: FlaskClient, text: str) -> None:
    answer = client.post("/invocations", data=text.encode(), headers={"Content-Type": "text/csv"})
    assert echoed(answer.text, text) <= MOST


def test_endpoints(client: FlaskClient) -> None:
    answer = client.post(
        f"/endpoints/{'A' * 5000}/invocations", data=b"{", headers={"Content-Type": "application/json"}
    )
    assert answer.json and answer.json["Message"].count("A") <= MOST


@each("text", [*LONG, UNICODE])
@each(
    "shape", [lambda t: {"name": t, "shape": [1], "datatype": "FP32", "data": [1]},
              lambda t: {"name": "image", "shape": [1], "datatype": t, "data": [1]},
              lambda t: {"name": "image", "shape": [1], "datatype": "BYTES", "data": [t]},
              lambda t: {"name": "image", "shape": [t], "datatype": "BYTES", "data": []},
              lambda t: {"name": "image", "shape": [1], "datatype": "BYTES", t: [], "parameters": {t: t}},
              lambda t: {"name": t, "shape": t, "datatype": "FP32", "data": []},
              lambda t: {"name": t, "shape": [1], "datatype": "FP32", "data": {}},
              lambda t: {"name": t, "shape": [1], "datatype": "FP32", "parameters": {"binary_data_size": t}},
              lambda t: {"name": t, "shape": [1], "datatype": "FP32", "data": [], "parameters": {"classification": t}}]
)  # fmt: skip
def test_the_open_inference_protocol(client: FlaskClient, shape: object, text: str) -> None:
    assert callable(shape)
    good = {"name": "image", "shape": [1, 4, 4, 3], "datatype": "UINT8", "data": [0] * 48}
    for body in (
        {"inputs": [shape(text)]},
        {"inputs": [shape(text)] * 2},
        {"inputs": [good], "outputs": [shape(text)]},
        {"inputs": [good], "parameters": shape(text)},
    ):
        answer = client.post("/v2/models/mean/infer", json=body)
        assert answer.status_code >= 400 or "inputs" not in body or good in body["inputs"]
        assert "error" not in answer.text or echoed(answer.text, text) <= MOST
    assert echoed(client.post(f"/v2/models/{text.replace('/', '')}/infer", json={}).text, text) <= MOST


def test_sentences_of_ours_stay_whole() -> None:
    words = "expected what the model's signature says and what isn't in 'short' quotes " * 5
    assert BadRequest(words).message == words


def test_a_word_is_cut_in_its_middle() -> None:
    assert BadRequest("got " + "x" * 500 + "y").message == "got " + "x" * 63 + " … " + "x" * 25 + "y"
