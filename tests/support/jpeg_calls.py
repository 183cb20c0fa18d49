"""Counts the function calls for one JPEG in a freshly started worker: ``python -m support.jpeg_calls PLAN [grpc]``.

With ``grpc`` the worker is the gRPC front, and the JPEG comes as a ModelInfer of the Open Inference Protocol.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

import lightbox
from lightbox.features import enabled
from lightbox.features.open_inference.grpc.asgi import INFER, framed
from lightbox.features.open_inference.grpc.front import make_server
from lightbox.features.open_inference.grpc.messages import ModelInferResponse, message_class
from lightbox.serving.worker import assemble, wsgi_app
from lightbox.transports.grpc import GrpcTransport
from support.fakes import mean_model

SIDECAR = Path(lightbox.__file__).parent
BOTH_SIDES = SIDECAR / "model_runtime" / "wire"
"""The formats that the model server reads too; they are no part of the sidecar's own way."""


def poster(plan: str, body: bytes) -> Callable[[], None]:
    """Return what posts a JPEG as gunicorn does: through the edge, without a test client."""
    app = wsgi_app(plan)

    def post() -> None:
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
        assert (statuses, answer) == (["200 OK"], b'{"predictions":[[99.0,99.0,99.0]]}')

    return post


def caller(plan: str, body: bytes) -> Callable[[], None]:
    """Return what sends a JPEG as nginx does, to the front's ASGI app."""
    request = message_class("inference.ModelInferRequest")(model_name="mean", raw_input_contents=[body])
    request.inputs.add(name="image", datatype="BYTES", shape=[1])
    services, loop = assemble(Path(plan), "grpc_front"), asyncio.new_event_loop()

    async def make() -> Any:
        return make_server(services, enabled(services.settings), "unix:/nowhere")

    server = loop.run_until_complete(make())
    scope = {"method": "POST", "path": f"{INFER}ModelInfer", "headers": [(b"content-type", b"application/grpc")]}

    async def call() -> None:
        events, sent = [{"type": "http.request", "body": framed(request.SerializeToString())}], []

        async def receive() -> Mapping[str, Any]:
            if not events:
                await asyncio.Event().wait()
            return events.pop()

        async def send(event: Mapping[str, Any]) -> None:
            sent.append(event)

        await server.unary(scope, receive, send)
        response = ModelInferResponse.FromString(sent[1]["body"][5:])
        assert np.frombuffer(response.raw_output_contents[0], "<f4").tolist() == [99, 99, 99]

    return lambda: loop.run_until_complete(call())


def calls(ask: Callable[[], None]) -> list[tuple[str, str]]:
    """Return file and function of each call in the sidecar, in all threads, that the second of two JPEGs takes."""
    entered: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        of_sidecar = code.co_filename.startswith(f"{SIDECAR}/") and not code.co_filename.startswith(f"{BOTH_SIDES}/")
        if event == "call" and of_sidecar:
            entered.append((f"container/lightbox/{Path(code.co_filename).relative_to(SIDECAR)}", code.co_qualname))

    threading.setprofile(note)  # for those that begin now
    ask()
    entered.clear()
    sys.setprofile(note)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return entered


if __name__ == "__main__":
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (99, 99, 99)).save(buffer, "jpeg")
    way = caller if sys.argv[2:] == ["grpc"] else poster
    with patch.object(GrpcTransport, "signature", lambda *_: mean_model(side=8)):
        print(json.dumps(calls(way(sys.argv[1], buffer.getvalue()))), flush=True)
