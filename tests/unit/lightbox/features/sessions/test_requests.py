"""Sessions on /invocations: opening, predictions, closing, and every invalid request."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from PIL import Image
from werkzeug.test import TestResponse

from lightbox.features.sessions.requests import SessionRequests
from lightbox.features.sessions.store import SessionStore
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, png, signature

PIXELS = np.random.default_rng(5).integers(0, 256, (6, 8, 3), np.uint8)
IMAGE = png(PIXELS)
SESSION, NEW = "X-Amzn-SageMaker-Session-Id", "X-Amzn-SageMaker-New-Session-Id"
CLOSED, ATTRIBUTES = "X-Amzn-SageMaker-Closed-Session-Id", "X-Amzn-SageMaker-Custom-Attributes"
CLOSE = b'{"requestType": "CLOSE"}'
OPEN = b'{"requestType": "NEW_SESSION"}'


def sizes(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the width and height of encoded images."""
    return {"size": np.array([Image.open(io.BytesIO(text)).size for text in inputs["text"]], np.int64)}


def greys(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"grey": inputs["image"].astype("f4").mean(axis=(1, 2, 3))[:, None]}


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    (tmp_path / "sessions").mkdir()
    return SessionStore(tmp_path / "sessions", 60, 6, 8 * PIXELS.size)


def app(store: SessionStore | None, code: Path | None = None) -> FlaskClient:
    transport = FakeTransport()
    transport.serve(mean_model(side=None), channel_means)
    transport.serve(signature("files", {"text": ("string", (None,))}, {"size": ("int64", (None, 2))}), sizes)
    grey = {"image": ("uint8", (None, None, None, 1))}
    transport.serve(signature("grey", grey, {"grey": ("float32", (None, 1))}), greys)
    models = dict.fromkeys(("mean", "files", "grey"), ModelOptions())
    return fake_app(transport, models, code=code, around=[SessionRequests(store)] if store else ()).test_client()


@pytest.fixture
def client(store: SessionStore) -> FlaskClient:
    return app(store)


def ask(
    client: FlaskClient, session: str | None, body: bytes = b"", content_type: str = "", attributes: str = ""
) -> TestResponse:
    headers = {SESSION: session, ATTRIBUTES: attributes}
    sent = {name: value for name, value in headers.items() if value}
    return client.post("/invocations", data=body, content_type=content_type or None, headers=sent)


def opened(answer: TestResponse) -> str:
    assert answer.status_code == 200, answer.get_data()
    return answer.headers[NEW].split(";")[0]


def stages(answer: TestResponse) -> list[str]:
    return [part.split(";")[0] for part in answer.headers["Server-Timing"].split(", ")]


def predictions(answer: TestResponse) -> Any:
    assert answer.status_code == 200, answer.get_data()
    return answer.get_json()["predictions"]


def test_decode_once_ask_many(client: FlaskClient, store: SessionStore) -> None:
    first = ask(client, "NEW_SESSION", IMAGE, "image/png")
    session = opened(first)
    np.testing.assert_allclose(predictions(first), [PIXELS.mean(axis=(0, 1))], rtol=1e-6)
    assert "decode" in stages(first)
    again = ask(client, session)
    assert predictions(again) == predictions(first)
    assert "decode" not in stages(again)
    assert NEW not in again.headers
    saved = next(part for part in again.headers["Server-Timing"].split(", ") if part.startswith("saved"))
    assert saved.endswith(f'desc="decode and {len(IMAGE)} bytes"')
    part = ask(client, session, attributes="tfs-crop=2,1,4,3,tfs-transport=rest")
    np.testing.assert_allclose(predictions(part), [PIXELS[1:4, 2:6].mean(axis=(0, 1))], rtol=1e-6)
    luma = np.asarray(Image.fromarray(PIXELS).convert("L")).mean()
    np.testing.assert_allclose(predictions(ask(client, session, attributes="tfs-model-name=grey")), [[luma]], rtol=1e-5)
    assert predictions(ask(client, session, attributes="tfs-model-name=files")) == [[8, 6]]
    assert predictions(ask(client, session, attributes="tfs-model-name=files,tfs-crop=0,0,3,2")) == [[3, 2]]
    closed = ask(client, session, CLOSE, "application/json")
    assert closed.status_code == 200
    assert closed.headers[CLOSED] == session
    assert store.usage() == (0, 0)
    assert ask(client, session).get_json()["code"] == "unknown_session"


@pytest.mark.parametrize(
    ("asked", "body", "content_type"),
    [
        ("NEW_SESSION", b"", ""),
        ("NEW_SESSION", OPEN, "application/json"),
        ("NEW_SESSION", OPEN, ""),
        (None, OPEN, "application/json"),
    ],
)
def test_a_session_is_opened_without_an_image(
    client: FlaskClient, asked: str | None, body: bytes, content_type: str
) -> None:
    session = opened(ask(client, asked, body, content_type))
    none_yet = ask(client, session)
    assert none_yet.status_code == 400
    assert none_yet.get_json()["error"] == "the body: expected an image, as the session has none yet; got 0 bytes"
    kept = ask(client, session, IMAGE, "application/x-image")
    assert predictions(kept) == predictions(ask(client, session))


def test_an_image_takes_the_place_of_the_one_before(client: FlaskClient, store: SessionStore) -> None:
    session = opened(ask(client, "NEW_SESSION", IMAGE, "image/png"))
    other = ask(client, session, png(np.full((2, 2, 3), 7)), "image/png")
    assert predictions(other) == predictions(ask(client, session)) == [[7, 7, 7]]
    assert store.usage() == (1, 16)


def test_another_body_is_answered_and_not_kept(client: FlaskClient, store: SessionStore) -> None:
    body = b'{"instances": [[[[1, 2, 3]]]]}'
    first = ask(client, "NEW_SESSION", body, "application/json")
    session = opened(first)
    assert predictions(first) == predictions(ask(client, session, body, "application/json")) == [[1, 2, 3]]
    assert store.usage() == (1, 0)


def test_a_first_request_that_fails_leaves_no_session(client: FlaskClient, store: SessionStore) -> None:
    for body, attributes in ((IMAGE[:50], ""), (IMAGE, "tfs-crop=9,9,9,9"), (IMAGE, "tfs-model-name=nobody")):
        answer = ask(client, "NEW_SESSION", body, "image/png", attributes)
        assert answer.status_code in (400, 404)
        assert NEW not in answer.headers
    assert store.usage() == (0, 0)


@pytest.mark.parametrize(
    ("asked", "body", "content_type", "attributes", "code", "sentence"),
    [
        ("0" * 32, b"", "", "", "unknown_session", f"{SESSION}: expected NEW_SESSION, or the id of an open session"),
        ("0" * 32, CLOSE, "", "", "unknown_session", "has expired or was closed"),
        ("not an id", IMAGE, "image/png", "", "unknown_session", "has expired or was closed"),
        (None, CLOSE, "application/json", "", "bad_request", f"{SESSION}: expected the id of the session to close"),
        ("NEW_SESSION", CLOSE, "", "", "bad_request", "the session to close, got NEW_SESSION"),
        ("open", OPEN, "", "", "bad_request", "requestType: expected CLOSE with a session's id, got NEW_SESSION"),
        ("open", b'{"requestType": "STOP"}', "", "", "bad_request", 'requestType: expected {"requestType": "NEW_'),
        ("open", b'{"requestType": "CLOSE", "x": 1}', "", "", "bad_request", "got"),
        ("open", b"", "", "tfs-crop=0,0,1,1", "bad_request", "the body: expected an image, as the session has none"),
        ("open", b"1,2", "text/csv", "tfs-crop=0,0,1,1", "bad_request", "tfs-crop: expected a body that is one image"),
        ("kept", b"", "", "tfs-crop=0,0,9,1", "bad_request", "of a part of the image, which is 8x6; got 0,0,9,1"),
        ("kept", b"", "", "tfs-method=classify", "bad_request", "tfs-method=classify: expected examples"),
        ("kept", b"{}", "application/vnd.sagemaker-triton.binary+json", "", "bad_request", "Open Inference Protocol"),
        ("kept", b"x", "video/mp4", "", "unsupported_media_type", "video/mp4"),
        ("kept", b"no image", "image/png", "", "image_undecodable", ""),
    ],
)
def test_wrong_requests(
    client: FlaskClient, asked: str | None, body: bytes, content_type: str, attributes: str, code: str, sentence: str
) -> None:
    there = {
        "open": opened(ask(client, "NEW_SESSION")),
        "kept": opened(ask(client, "NEW_SESSION", IMAGE, "image/png")),
    }
    answer = ask(client, there.get(asked or "", asked), body, content_type, attributes)
    assert answer.get_json()["code"] == code
    assert sentence in answer.get_json()["error"]
    assert not any(session in answer.get_data(as_text=True) for session in there.values())
    assert predictions(ask(client, there["kept"]))


def test_bounds(client: FlaskClient) -> None:
    large = ask(client, "NEW_SESSION", png(np.zeros((30, 30, 3))), "image/png")
    assert (large.status_code, large.get_json()["code"]) == (413, "too_large")
    for _ in range(3):
        opened(ask(client, "NEW_SESSION"))
    many = ask(client, "NEW_SESSION")
    assert (many.status_code, many.get_json()["code"]) == (503, "unavailable")
    assert many.headers["Retry-After"]


def test_sessions_that_are_off() -> None:
    client = app(None)
    answer = ask(client, "NEW_SESSION", IMAGE, "image/png")
    assert answer.status_code == 400
    assert "sessions are off: set LIGHTBOX_SESSIONS=true, or leave out the header" in answer.get_json()["error"]
    assert ask(client, None, IMAGE, "image/png").status_code == 200


HANDLER = """
def handler(data, context):
    return data.read()[:8] + context.request_content_type.encode(), "application/octet-stream"
"""


def test_a_handler_gets_the_kept_image_as_a_file(store: SessionStore, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "inference.py").write_text(HANDLER)
    client = app(store, code)
    session = opened(ask(client, "NEW_SESSION", IMAGE, "image/png"))
    for attributes in ("", "tfs-crop=0,0,2,2"):
        answer = ask(client, session, attributes=attributes)
        assert answer.get_data() == b"\x89PNG\r\n\x1a\napplication/x-image"
