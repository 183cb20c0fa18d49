"""Any body and headers give a prediction or an error in Lightbox's form, never a 5xx."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import EnvironBuilder, run_wsgi_app

from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry.logs import FinishedRequest, request_line
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model, signature
from support.log_lines import without_times
from support.patience import PATIENCE

pytestmark = pytest.mark.extended

bounded = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MODELS = ["numbers", "mean", "texts", "pair"]


def sums(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": inputs["x"].astype("f4").sum(axis=1)}


def lengths(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"n": np.array([len(text) for text in inputs["s"].ravel().tolist()], np.int64)}


def both(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {"a": inputs["a"], "flag": np.logical_not(inputs["flag"])}


@cache
def app() -> Flask:
    transport = FakeTransport()
    transport.serve(signature("numbers", {"x": ("float32", (None, 3))}, {"y": ("float32", (None,))}), sums)
    transport.serve(mean_model(), channel_means)
    transport.serve(signature("texts", {"s": ("string", (None,))}, {"n": ("int64", (None,))}), lengths)
    inputs = {"a": ("int8", (None,)), "flag": ("bool", (None,))}
    transport.serve(signature("pair", inputs, inputs), both)
    return fake_app(transport, {name: ModelOptions() for name in MODELS})


def answer(body: bytes, headers: Mapping[str, str]) -> None:
    """Send a request to the app without a client's checks, and check the response."""
    builder = EnvironBuilder(method="POST", path="/invocations", input_stream=io.BytesIO(body))
    environ = builder.get_environ() | {"CONTENT_LENGTH": str(len(body))}
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    chunks, status, answered = run_wsgi_app(app(), environ)
    text = b"".join(chunks)
    assert status.split()[0] == "200" or status[0] == "4", (status, text)
    assert all("\r" not in value and "\n" not in value for _, value in answered)
    if status[0] == "4":
        assert json.loads(text).keys() == {"error", "code", "request_id"}
        assert len(text) < 3000


def for_model(name: str, content_type: str) -> dict[str, str]:
    return {"X-Amzn-SageMaker-Custom-Attributes": f"tfs-model-name={name}", "Content-Type": content_type}


PIECES = st.binary(max_size=8) | st.sampled_from([b"[" * 50, b'"', b"\\u", b"1e999", b"\xef\xbb\xbf", b"NaN"])


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Some bytes replaced, inserted, removed or repeated."""
    body = bytearray(whole)
    for _ in range(draw(st.integers(1, 5))):
        at, length, piece = draw(st.integers(0, len(body))), draw(st.integers(0, 8)), draw(PIECES)
        body[at : at + length] = piece if draw(st.booleans()) else body[at : at + length] * 2
    return bytes(body)


TEXTS = [
    b'{"instances": [[1, 2.5, -3e2], [4, 5, 6]], "signature_name": "serving_default"}',
    b'{"inputs": {"a": [1, 2], "flag": [true, false]}}',
    b'{"instances": [{"b64": "aGVsbG8="}, "\\u00e9\\ud83d\\ude00"]}',
    b'{"instances": [1]}\n{"instances": [2]}\n',
    b"1,2,3\n4,5,6\n",
    b'"a ""quoted"" cell",+4,.5\r\n\xef\xbb\xbf,1e5,-\r\n',
]


@bounded
@given(
    st.sampled_from(MODELS),
    st.sampled_from(["application/json", "application/jsonlines", "text/csv", ""]),
    st.sampled_from(TEXTS).flatmap(damaged) | st.binary(max_size=200),
)
def test_damaged_texts(model: str, content_type: str, body: bytes) -> None:
    answer(body, for_model(model, content_type))


HEADER_NAMES = [
    *("Content-Type", "Accept", "Content-Encoding", "X-Amzn-SageMaker-Custom-Attributes", "X-Amzn-RequestId"),
    *("X-Request-Id", "X-Amzn-SageMaker-Target-Model", "X-Lightbox-Received", "traceparent", "Accept-Encoding"),
    *("Content-MD5", "Range", "Expect", "Host", "X-Forwarded-For"),
]
HEADER_PARTS = st.sampled_from(
    [
        *("application/json", "text/csv", "image/*", "*/*", "multipart/form-data; boundary="),
        *("tfs-model-name=", "tfs-method=", "tfs-model-version=", "tfs-signature-name=", "tfs-transport="),
        *("tfs-crop=", "tfs-crop=0,0,1,1"),
        *(";q=", "q=0", "charset=", "gzip", "numbers", "verbose", "0", "-1", "9" * 30, "nan", "A" * 300),
        *(",", ";", "=", '"', "\\", " ", "\t", "\r\n", "\0", "\x7f", "é", "ÿ"),
    ]
)
HEADER_VALUES = st.lists(HEADER_PARTS | st.text(st.characters(max_codepoint=255), max_size=5), max_size=8).map("".join)


@bounded
@given(st.dictionaries(st.sampled_from(HEADER_NAMES), HEADER_VALUES, max_size=5), st.sampled_from(TEXTS))
def test_headers(headers: dict[str, str], body: bytes) -> None:
    answer(body, headers)


ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)


@bounded
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_log_lines_stay_on_their_line(request_id: str, method: str, path: str, model: str) -> None:
    context = RequestContext(PATIENCE)
    context.model = model
    request = FinishedRequest(request_id, method, path, "unmatched", 404, 0, 0, None, context)
    text = request_line(request, as_json=False, process="worker")
    assert len(text.splitlines()) == 1
    names = [pair.partition("=")[0] for pair in without_times(text).split(" ")]
    assert names[:2] == ["[request]", "request_id"]
    assert sum(name == "status" for name in names) == 1
    as_json = request_line(request, as_json=True, process="worker")
    assert len(as_json.splitlines()) == 1
    assert json.loads(as_json).keys() >= {"request_id", "path", "status"}
