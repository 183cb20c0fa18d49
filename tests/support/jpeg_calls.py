"""Counts the function calls for one JPEG in a freshly started process: ``python -m support.jpeg_calls PLAN WAY``.

The ways: ``http`` is gunicorn's worker; ``grpc`` is the gRPC front, with a ModelInfer of the Open Inference Protocol;
``predict`` is the embedded model server with OpenVINO, which gets pixels over the local transport.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

from lightbox.base.request_context import RequestContext
from lightbox.features import enabled
from lightbox.features.open_inference.grpc.asgi import INFER, framed
from lightbox.features.open_inference.grpc.front import make_server
from lightbox.features.open_inference.grpc.messages import ModelInferResponse, message_class
from lightbox.model.spec import ModelCall
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.server.calls import Calls
from lightbox.model_runtime.server.core import ServerCore
from lightbox.model_runtime.server.grpc.grpc_services import Services
from lightbox.model_runtime.server.local_server import LocalServer
from lightbox.model_runtime.server.manager import LoadPolicy, Manager
from lightbox.model_runtime.server.monitoring import Metrics
from lightbox.model_runtime.server.servable_loader import Loader
from lightbox.serving.worker import assemble, wsgi_app
from lightbox.transports.grpc import GrpcTransport
from lightbox.transports.local import LocalTransport
from support.fakes import signature
from support.onnx_models import write_classifier
from support.patience import PATIENCE
from support.stack import REPOSITORY

MEAN = signature("mean", {"image": ("float32", (None, 8, 8, 3))}, {"mean": ("float32", (None, 3))})
Entered = tuple[str, str]
"""File and function of a call. The files of this repository are relative to it, and a function in C has none."""


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
            # From nginx.
            "HTTP_HOST": "localhost",
            "HTTP_X_FORWARDED_FOR": "192.0.2.1",
            "HTTP_X_AMZN_REQUESTID": "0123456789abcdef0123456789abcdef",
            "HTTP_X_LIGHTBOX_RECEIVED": f"{time.time():.3f}",
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


def predicter(folder: Path) -> Callable[[], None]:
    """Return what sends pixels to threads of this process that serve the local transport."""
    write_classifier(folder / "net" / "1" / "model.onnx")
    metrics = Metrics()
    loader = Loader(Opener("openvino", ("serve",), b"", Hardware(1, 1)).open, metrics)
    manager = Manager(loader, LoadPolicy(max_retries=0))
    manager.aspire("net", {1: str(folder / "net" / "1")})
    assert manager.wait_until_settled(["net"], PATIENCE)
    services = Services(Calls(ServerCore(manager), metrics))
    LocalServer(str(folder / "socket"), 1, services.predict_bytes).start()
    transport = LocalTransport(folder / "socket", "unix:/nowhere")
    net = signature("net", {"image": ("float32", (None, 3, 224, 224))}, {"scores": ("float32", (None, 3))})

    def predict() -> None:
        context = RequestContext(PATIENCE)
        found = transport.predict(ModelCall(net, {"image": np.ones((1, 3, 224, 224), np.float32)}), context)
        assert (context.transport, found["scores"].shape) == ("local", (1, 3))

    return predict


def calls(ask: Callable[[], None], begin: str | None = None) -> list[Entered]:
    """Return each call, in all threads, that the third of some JPEGs takes.

    With ``begin``, the function with which the work for one begins in a thread of its own, those of this thread are
    left out.
    """
    entered: list[Entered] = []

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            code = frame.f_code
            entered.append((code.co_filename.removeprefix(f"{REPOSITORY}/"), code.co_qualname))
        elif event == "c_call":
            entered.append(("", f"{called.__module__ or ''}.{called.__qualname__}"))

    threading.setprofile(note)  # for those that begin now
    sys.setprofile(None if begin else note)
    try:
        for _ in range(4):
            ask()
    finally:
        sys.setprofile(None)
    begins = [at for at, (_, function) in enumerate(entered) if function == (begin or ask.__qualname__)]
    return [(file, name) for file, name in entered[begins[2] : begins[3]] if not file.startswith("tests/")]


def main(plan: str, way: str) -> list[Entered]:
    """Return the calls of a way on two cores: a large image is resized on all."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    if way == "predict":
        return calls(predicter(Path(plan).parent), "Services.predict_bytes")
    buffer = io.BytesIO()
    Image.new("RGB", (1024, 768), (99, 99, 99)).save(buffer, "jpeg")
    with patch.object(GrpcTransport, "signature", lambda *_: MEAN):
        if way == "grpc":
            return calls(caller(plan, buffer.getvalue()))
        return calls(poster(plan, buffer.getvalue()))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
