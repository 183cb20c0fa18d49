"""The gRPC front on a fake model server: a real nginx, server and channel."""

from __future__ import annotations

import asyncio
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np
import pytest

from lightbox.base.telemetry.logs import FinishedRequest, Observer
from lightbox.core.pipeline import Pipeline
from lightbox.core.shares import Shares
from lightbox.features.open_inference import nginx_part
from lightbox.features.open_inference.dataplane import DataPlane
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.grpc.asgi import InferenceServer
from lightbox.features.open_inference.grpc.calls import WorkerPool
from lightbox.features.open_inference.grpc.front import listen
from lightbox.features.open_inference.grpc.health_service import Readiness
from lightbox.features.open_inference.grpc.incoming import Account, Bounds
from lightbox.features.open_inference.grpc.servicer import InferenceService
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ModelServerAddress, ServingPlan
from lightbox.nginx.configuration import render
from lightbox.nginx.installation import find_nginx
from lightbox.serving import worker
from lightbox.serving.settings_loading import load_settings
from lightbox.user_code.registry import UserCode
from support.fake_transport import FakeTransport
from support.fakes import png
from support.patience import PATIENCE, poll
from support.stack import free_port

RED = png(np.full((4, 4, 3), (200, 0, 0)))
BLUE = png(np.full((9, 5, 3), (0, 0, 100)))
MAX_BYTES = 1 << 20
BOUNDS = Bounds(message=MAX_BYTES, together=4 * MAX_BYTES, receive_seconds=PATIENCE)
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]
T = TypeVar("T")


class Caller:
    """Calls the service through a channel."""

    def __init__(self, channel: Any, port: int) -> None:
        self.channel = channel
        self.port = port
        self.ready: bool | None = True
        """The result of /ping; None while it does not respond."""
        self.pings = 0
        self.stop: Callable[[], None] = lambda: None
        self.pool: WorkerPool
        self.account: Account
        self.server: InferenceServer

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
    """Records the observers' events."""

    def __init__(self) -> None:
        self.requests: queue.Queue[FinishedRequest] = queue.Queue()

    def responded(self, request: FinishedRequest) -> None:
        self.requests.put(request)


def make_pipeline(
    transport: FakeTransport, names: Sequence[str], code: Path | None = None, environ: Mapping[str, str] | None = None
) -> Pipeline:
    """Return a pipeline on a fake model server; ``code`` is a folder with an ``inference.py`` for all models."""
    folders = (code,) if code else ()
    plan = ServingPlan(
        models={
            name: PlannedModel(name=name, base_path=Path("/m"), options=ModelOptions(), code_dirs=folders)
            for name in names
        },
        default_model=names[0],
        model_servers=(ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=1, rest_port=2),),
    )
    return worker.make_pipeline(load_settings(environ or {}), plan, {"grpc": transport}, UserCode())


@contextmanager
def serving(
    pipeline: Pipeline,
    folder: Path,
    observers: Sequence[Observer] = (),
    waiting: int = 2,
    reflection: bool = False,
    bounds: Bounds = BOUNDS,
) -> Iterator[Caller]:
    """Run the server in its own thread behind a real nginx, with at most two concurrent calls.

    Sockets and nginx's files are in ``folder``. A stop has no timeout.
    """
    listeners: list[asyncio.Server] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE)

    async def start(caller: Caller) -> None:
        async def is_ready() -> bool:
            caller.pings += 1
            while caller.ready is None:
                await asyncio.sleep(0.01)
            return caller.ready

        caller.pool = WorkerPool(Shares(2), 2 + waiting, patience=0.5, observers=observers)
        caller.account = Account(bounds)
        caller.server = InferenceServer(
            InferenceService(DataPlane(pipeline, Path("/nowhere"))),
            caller.pool,
            Readiness(is_ready),
            caller.account,
            allowed_seconds=PATIENCE,
            load_seconds=PATIENCE,
            with_reflection=reflection,
        )
        listeners.extend(await listen(caller.server, f"unix:{folder}/calls", f"unix:{folder}/streams"))

    try:
        with nginx_before(folder) as (port, nginx), grpc.insecure_channel(f"127.0.0.1:{port}", OPTIONS) as channel:
            caller = Caller(channel, port)

            def stop() -> None:
                nginx.send_signal(signal.SIGQUIT)
                while nginx.poll() is None:  # as the supervisor does
                    loop.call_soon_threadsafe(caller.server.renew)
                    time.sleep(0.01)

            caller.stop = stop
            run(start(caller))
            grpc.channel_ready_future(channel).result(PATIENCE)
            yield caller
            caller.stop()
            caller.pool.close()
    finally:
        run(_end(listeners))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(listeners: Sequence[asyncio.Server]) -> None:
    """Close all connections before the loop ends."""
    for listener in listeners:
        listener.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def nginx_before(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run nginx before the sockets ``calls`` and ``streams`` of a folder; yield its gRPC port, and nginx."""
    port = free_port()
    settings = load_settings({"SAGEMAKER_BIND_TO_PORT": str(free_port()), "LIGHTBOX_MAX_BODY_MB": "1"})
    addresses = {"SIDECAR": f"unix:{folder}/nobody", "HEALTH": f"unix:{folder}/nobody"}
    parts = [nginx_part(port, f"unix:{folder}/calls", f"unix:{folder}/streams")]
    conf = folder / "nginx.conf"
    conf.write_text(render(settings, folder, addresses, 100 << 20, parts=parts))
    with (folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen([find_nginx(), "-e", "stderr", "-c", str(conf)], stdout=log, stderr=log)
    try:
        for _ in poll():  # a channel without a listener waits a second before it retries
            with suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
        yield port, process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def infer(method: str = "ModelInfer", **more: str) -> dict[str, str]:
    """Return the headers that open a call of the inference service."""
    path = {":method": "POST", ":scheme": "http", ":path": f"/{grpc_messages.INFERENCE_SERVICE}/{method}"}
    return {**path, ":authority": "a", "te": "trailers", "content-type": "application/grpc", **more}


def framed(message: bytes) -> bytes:
    """Return a message in gRPC's framing."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def images(*bodies: bytes) -> dict[str, Any]:
    contents = {"bytes_contents": bodies}
    entry = {"name": "image", "datatype": "BYTES", "shape": [len(bodies)], "contents": contents}
    return {"model_name": "mean", "inputs": [entry]}


def floats(answer: Any) -> list[float]:
    return [float(value) for value in np.frombuffer(answer.raw_output_contents[0], "<f4")]
