"""The gRPC form over a fake model server: a real server and channel, on a socket of its own."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np
import pytest

from lightbox import worker
from lightbox.core.pipeline import Pipeline
from lightbox.features.open_inference import grpc_gate, grpc_messages, grpc_server
from lightbox.features.open_inference.grpc_calls import WorkerPool
from lightbox.features.open_inference.grpc_gate import Bounds, Gate
from lightbox.features.open_inference.grpc_health import Readiness
from lightbox.features.open_inference.grpc_server import ROOM, InferenceServer
from lightbox.features.open_inference.grpc_service import InferenceService
from lightbox.features.open_inference.repository import Repository
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ModelServerAddress, ServingPlan
from lightbox.settings_loading import load_settings
from lightbox.telemetry.logs import FinishedRequest, Observer
from lightbox.transports.fake import FakeTransport
from lightbox.user_code.registry import UserCode
from support.fakes import png
from support.patience import PATIENCE

RED = png(np.full((4, 4, 3), (200, 0, 0)))
BLUE = png(np.full((9, 5, 3), (0, 0, 100)))
MAX_BYTES = 1 << 20
BOUNDS = Bounds(message=ROOM * MAX_BYTES, together=4 * MAX_BYTES, receive_seconds=PATIENCE)
T = TypeVar("T")


class Caller:
    """Calls the service through a channel."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.ready = True
        self.pool: Any = None
        self.stop: Callable[[], None] = lambda: None
        self.before_stop: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)
        self.gate: Gate

    def __call__(self, method: str, request: Any = None, **kwargs: Any) -> Any:
        return self.with_call(method, request, **kwargs)[0]

    def with_call(self, method: str, request: Any = None, **kwargs: Any) -> Any:
        call, message = self._prepare(method, request)
        return call.with_call(message, timeout=PATIENCE, **kwargs)

    def future(self, method: str, request: Any = None, **kwargs: Any) -> Any:
        call, message = self._prepare(method, request)
        return call.future(message, timeout=PATIENCE, **kwargs)

    def _prepare(self, method: str, request: Any) -> tuple[Any, Any]:
        (found,) = [m for m in grpc_messages.methods_of(grpc_messages.INFERENCE_SERVICE) if m.name == method]
        request_class = grpc_messages.message_class(found.input_type.full_name)
        call = self.channel.unary_unary(
            f"/{grpc_messages.INFERENCE_SERVICE}/{method}",
            request_serializer=None if isinstance(request, bytes) else request_class.SerializeToString,
            response_deserializer=grpc_messages.message_class(found.output_type.full_name).FromString,
        )
        return call, request if isinstance(request, bytes) else request_class(**(request or {}))

    def fails(self, method: str, request: Any = None, **kwargs: Any) -> tuple[str, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self(method, request, **kwargs)
        error: Any = caught.value
        return error.code().name, error.details()


class Watcher:
    """Keeps what observers hear."""

    def __init__(self) -> None:
        self.requests: queue.Queue[FinishedRequest] = queue.Queue()

    def responded(self, request: FinishedRequest) -> None:
        self.requests.put(request)


def make_pipeline(
    transport: FakeTransport, names: Sequence[str], code: Path | None = None, environ: Mapping[str, str] | None = None
) -> Pipeline:
    """Return a pipeline over a fake model server; ``code`` is a folder with an ``inference.py`` for all models."""
    folders = (code,) if code else ()
    plan = ServingPlan(
        models={
            name: PlannedModel(name=name, base_path=Path("/m"), options=ModelOptions(), code_dirs=folders)
            for name in names
        },
        default_model=names[0],
        model_servers=(ModelServerAddress(grpc_port=1, rest_port=2),),
    )
    return worker.make_pipeline(load_settings(environ or {}), plan, {"grpc": transport}, UserCode())


@contextmanager
def serving(
    pipeline: Pipeline,
    address: str,
    observers: Sequence[Observer] = (),
    waiting: int = 2,
    reflection: bool = False,
    bounds: Bounds = BOUNDS,
) -> Iterator[Caller]:
    """Run the server behind its gate in a thread of its own, with two calls in progress at once.

    ``address`` is ``unix:`` and the path of a socket. A stop takes as long as it needs.
    """
    path = address.removeprefix("unix:")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE)

    async def start() -> None:
        async def is_ready() -> bool:
            return caller.ready

        pool = WorkerPool(2, waiting, patience=0.5, observers=observers)
        server = InferenceServer(
            InferenceService(pipeline, Repository(pipeline, Path("/nowhere"))),
            pool,
            Readiness(is_ready, asyncio.Event()),
            allowed_seconds=PATIENCE,
            load_seconds=PATIENCE,
            max_bytes=MAX_BYTES,
            with_reflection=reflection,
        )
        server.server.add_insecure_port(f"{address}.server")
        await server.server.start()
        gate = Gate(f"{path}.server", bounds, pool.report_refused)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        await gate.listen(listener)
        caller.gate = gate
        caller.pool = pool

        async def stop() -> None:
            await caller.before_stop()
            gate.close()
            await server.stop(PATIENCE, gate)
            await gate.end()

        caller.stop = lambda: run(stop())

    try:
        with pytest.MonkeyPatch.context() as patch, grpc.insecure_channel(address) as channel:
            patch.setattr(grpc_server, "ACCEPT_SECONDS", PATIENCE)
            patch.setattr(grpc_gate, "_LAST_SECONDS", PATIENCE)
            caller = Caller(channel)
            run(start())
            yield caller
            caller.stop()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def images(*bodies: bytes) -> dict[str, Any]:
    contents = {"bytes_contents": bodies}
    entry = {"name": "image", "datatype": "BYTES", "shape": [len(bodies)], "contents": contents}
    return {"model_name": "mean", "inputs": [entry]}


def floats(answer: Any) -> list[float]:
    return [float(value) for value in np.frombuffer(answer.raw_output_contents[0], "<f4")]
