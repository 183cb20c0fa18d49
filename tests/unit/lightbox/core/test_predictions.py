"""Predictions without Flask."""

from __future__ import annotations

import gzip
import io
from typing import Any

import numpy as np
import pytest

from lightbox.core import app
from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import fake_app, png

IMAGE = png(np.full((4, 4, 3), (10, 20, 30)))
ID = {"X-Request-Id": "mine"}
WAYS = {
    "image": {"data": IMAGE, "content_type": "application/x-image"},
    "without a type": {"data": IMAGE},
    "JSON": {"json": {"instances": [[[[1, 2, 3]]]]}},
    "gzip": {"data": gzip.compress(IMAGE), "content_type": "image/png", "headers": {"Content-Encoding": "gzip"}},
    "CSV wanted": {"data": IMAGE, "headers": {"Accept": "text/csv"}},
    "another model": {"data": IMAGE, "headers": {"X-Amzn-SageMaker-Custom-Attributes": "tfs-model-name=other"}},
    "chunked": {"input_stream": io.BytesIO(IMAGE), "environ_overrides": {"wsgi.input_terminated": True}},
    "nothing": {},
    "no image": {"data": b"hello", "content_type": "application/x-image"},
    "too large": {"data": b"x" * (2 << 20), "content_type": "application/x-image"},
    "too large, chunked": {
        "input_stream": io.BytesIO(b"x" * (2 << 20)),
        "environ_overrides": {"wsgi.input_terminated": True},
    },
    "ends early": {"input_stream": io.BytesIO(b"x"), "environ_overrides": {"CONTENT_LENGTH": "9"}},
    "a target": {"data": IMAGE, "headers": {"X-Amzn-SageMaker-Target-Model": "other"}},
    "a query": {"data": IMAGE, "query_string": "a=1&b"},
    "a header of a feature that is off": {"data": IMAGE, "headers": {"X-Amzn-SageMaker-Session-Id": "NEW_SESSION"}},
}
"""Arguments of a test client's POST; a stream is read once."""


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_predictions_are_answered_as_by_flask(
    transport: FakeTransport, monkeypatch: pytest.MonkeyPatch, way: dict[str, Any]
) -> None:
    found = []
    for is_flask in (False, True):
        if is_flask:
            monkeypatch.setattr(app, "without_flask", lambda _, by_flask, __: by_flask)
        served = fake_app(transport, dict.fromkeys(("mean", "other"), ModelOptions()), {"LIGHTBOX_MAX_BODY_MB": "1"})
        if stream := way.get("input_stream"):
            stream.seek(0)
        answer = served.test_client().post("/invocations", **way | {"headers": way.get("headers", {}) | ID})
        headers = {name: value for name, value in answer.headers.items() if name != "Server-Timing"}
        found.append((answer.status_code, headers, answer.data))
    assert found[0] == found[1]
