"""A call that provably did not run is retried within its deadline. A call that may have run is not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest

from lightbox.base.errors import DeadlineExceeded, ModelServerUnreachable, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import ModelServerAddress
from lightbox.model.spec import ModelCall, SignatureSpec, TensorSpec
from lightbox.model_runtime.server.local_server import LocalServer
from lightbox.model_runtime.wire import tensor_proto as predict_response
from lightbox.transports.base import Transport
from lightbox.transports.grpc import GrpcTransport
from lightbox.transports.local import LocalTransport
from lightbox.transports.rest import RestTransport
from lightbox.transports.rest_connections import rest_connections
from support.http_server import answering_posts
from support.patience import PATIENCE
from support.stack import free_port

SIGNATURE = SignatureSpec(
    "net", 1, "serving_default", {"x": TensorSpec("x", "float32", (1,))}, {"y": TensorSpec("y", "float32", (1,))}
)
CALL = ModelCall(SIGNATURE, {"x": np.ones(1, np.float32)})
ANSWER = np.array([2.0], np.float32)
WIRES = ["grpc", "local", "rest", "rest_socket"]


LOCAL: list[LocalTransport] = []


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the sockets of the local transport in the test's folder, and close the test's connections."""
    monkeypatch.chdir(tmp_path)
    yield
    while LOCAL:
        for connection in LOCAL.pop()._idle:  # the channel stays open: gRPC's threads may use it
            connection.close()


def socket_of(port: int) -> Path:
    """Return the local or REST socket of the server with ``port``."""
    return Path(f"{port}.sock")


def transport(wire: str, port: int, **options: float) -> Transport:
    if wire == "local":
        LOCAL.append(LocalTransport(socket_of(port), f"127.0.0.1:{port}", **options))
        return LOCAL[-1]
    if wire == "grpc":
        return GrpcTransport(f"127.0.0.1:{port}", **options)
    rest_socket = socket_of(port) if wire == "rest_socket" else None
    server = ModelServerAddress(grpc_socket=Path("none"), rest_port=port, rest_socket=rest_socket)
    return RestTransport(rest_connections(server, 1), reconnect_seconds=options.get("reconnect_seconds", 1.0))


@contextmanager
def answering(wire: str, port: int, calls: list[str], die: bool = False) -> Iterator[None]:
    """Serve predict at a port and record each call; with ``die``, drop the connection during the call."""
    by_socket = partial(rest_server, path=socket_of(port))
    servers: dict[str, Callable[[int, list[str], bool], AbstractContextManager[None]]] = {
        "grpc": grpc_server,
        "local": local_server,
        "rest": rest_server,
        "rest_socket": by_socket,
    }
    with servers[wire](port, calls, die):
        yield


@contextmanager
def grpc_server(port: int, calls: list[str], die: bool) -> Iterator[None]:
    server = grpc.server(futures.ThreadPoolExecutor(2))

    def predict(_: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append("predict")
        if die:
            over = threading.Event()
            context.add_callback(over.set)
            server.stop(0)
            assert over.wait(PATIENCE)
        return predict_response.serialize({"y": ANSWER}, b"")

    methods = {"Predict": grpc.unary_unary_rpc_method_handler(predict)}
    service = "tensorflow.serving.PredictionService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()


@contextmanager
def local_server(port: int, calls: list[str], die: bool) -> Iterator[None]:
    def predict(_: memoryview, __: float) -> bytes:
        calls.append("predict")
        if die:
            raise ConnectionAbortedError  # the connection ends
        return predict_response.serialize({"y": ANSWER}, b"")

    server = LocalServer(str(socket_of(port)), 4, predict)
    server.start()
    try:
        with grpc_server(port, calls, die):
            yield
    finally:
        server.stop(PATIENCE)


@contextmanager
def rest_server(port: int, calls: list[str], die: bool, path: Path | None = None) -> Iterator[None]:
    def answer(_: bytes) -> tuple[int, bytes] | None:
        calls.append("predict")
        return None if die else (200, json.dumps({"predictions": ANSWER.tolist()}).encode())

    with answering_posts(answer, port, path):
        yield


LOOKS = {"grpc": 2, "local": 3, "rest": 2, "rest_socket": 2}
"""A call looks at its time before each try: the local wire, and gRPC after it; with this one it has been refused."""


class Refused(RequestContext):
    """A context that starts the server after the call's first tries are refused."""

    def __init__(self, looks: int, serve: Callable[[], object]) -> None:
        super().__init__(PATIENCE)
        self._looks, self._serve = looks, serve

    def remaining(self) -> float:
        self._looks -= 1
        if self._looks == 0:
            self._serve()
        return super().remaining()


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_comes_back_gets_the_call_once(wire: str) -> None:
    port, calls = free_port(), list[str]()
    with ExitStack() as stack:
        context = Refused(LOOKS[wire], lambda: stack.enter_context(answering(wire, port, calls)))
        assert transport(wire, port, reconnect_seconds=PATIENCE).predict(CALL, context) == {"y": ANSWER}
    assert calls == ["predict"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_stays_away_is_waited_for_a_moment_only(wire: str) -> None:
    context = RequestContext(2 * PATIENCE)
    with pytest.raises(ModelServerUnreachable):
        transport(wire, free_port()).predict(CALL, context)
    assert context.elapsed() < PATIENCE


@pytest.mark.parametrize("wire", WIRES)
def test_no_wait_goes_beyond_the_deadline(wire: str) -> None:
    context = RequestContext(0.2)
    with pytest.raises((ModelServerUnreachable, DeadlineExceeded)):
        transport(wire, free_port(), reconnect_seconds=2 * PATIENCE).predict(CALL, context)
    assert context.elapsed() < PATIENCE


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_may_have_run_is_not_sent_again(wire: str) -> None:
    port, calls = free_port(), list[str]()
    with answering(wire, port, calls, die=True), pytest.raises(Unavailable) as caught:
        transport(wire, port).predict(CALL, RequestContext(PATIENCE))
    assert calls == ["predict"]
    assert not isinstance(caught.value, ModelServerUnreachable)
    assert caught.value.retry_after >= 1
