"""Counts the function calls for one JPEG in a freshly started worker: ``python -m support.jpeg_calls PLAN``."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from flask import Flask
from PIL import Image

import lightbox
from lightbox.serving.worker import wsgi_app
from lightbox.transports.grpc import GrpcTransport
from support.fakes import mean_model

SIDECAR = Path(lightbox.__file__).parent
BOTH_SIDES = SIDECAR / "model_runtime" / "wire"
"""The formats that the model server reads too; they are no part of the sidecar's own way."""


def post(app: Flask, body: bytes) -> tuple[str, bytes]:
    """Post a JPEG to the app as gunicorn does: through the edge, without a test client."""
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/invocations",
        "CONTENT_TYPE": "application/x-image",
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "8080",  # unopened
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
    }

    def start_response(status: str, *_: Any) -> Callable[[bytes], object]:
        statuses.append(status)
        return len  # not used for writing

    answer = b"".join(app.wsgi_app(environ, start_response))
    return statuses[0], answer


def calls(app: Flask, body: bytes) -> list[tuple[str, str]]:
    """Return file and function of each call in the sidecar that the second of two JPEGs takes."""
    entered: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        of_sidecar = code.co_filename.startswith(f"{SIDECAR}/") and not code.co_filename.startswith(f"{BOTH_SIDES}/")
        if event == "call" and of_sidecar:
            entered.append((f"container/lightbox/{Path(code.co_filename).relative_to(SIDECAR)}", code.co_qualname))

    post(app, body)
    sys.setprofile(note)
    try:
        found = post(app, body)
    finally:
        sys.setprofile(None)
    assert found == ("200 OK", b'{"predictions":[[99.0,99.0,99.0]]}'), found
    return entered


if __name__ == "__main__":
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (99, 99, 99)).save(buffer, "jpeg")
    with patch.object(GrpcTransport, "signature", lambda *_: mean_model(side=8)):
        print(json.dumps(calls(wsgi_app(sys.argv[1]), buffer.getvalue())))
