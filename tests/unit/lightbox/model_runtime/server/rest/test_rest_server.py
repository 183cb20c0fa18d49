"""The sockets of the REST API: one misbehaving or idle client does not affect the others."""

from __future__ import annotations

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count, islice
from pathlib import Path

import pytest

from lightbox.model_runtime.server.rest import rest_server
from lightbox.model_runtime.server.rest.http_parser import Request, RequestParser
from lightbox.model_runtime.server.rest.http_response import Response
from lightbox.model_runtime.server.rest.rest_server import RestServer
from support.patience import PATIENCE, poll

ANSWER = bytes(16 << 20)
"""More than the kernel buffers for a client that does not read."""
ONE = b"GET /small HTTP/1.1\r\n\r\n"


def handle(request: Request) -> Response:
    """Return a small response, or one larger than a socket buffer."""
    return Response(200, ANSWER if request.target == "/large" else b"here", "text/plain")


@pytest.fixture
def server() -> Iterator[RestServer]:
    found = RestServer(0, 4, handle)
    found.start()
    yield found
    found.stop(PATIENCE)


def connect(server: RestServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def answers(server: RestServer) -> bool:
    """Return whether a new client gets a response."""
    with connect(server) as client:
        client.sendall(ONE)
        return client.recv(1 << 16).endswith(b"here")


def test_a_fault_of_ours_ends_one_connection_only(
    server: RestServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: RequestParser, data: bytes) -> Request | None:
        raise ValueError("a mistake")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR), connect(server) as client:
        patch.setattr(RequestParser, "feed", fail)
        client.sendall(ONE)
        assert client.recv(1 << 16) == b""
    assert "a mistake" in caplog.text
    assert answers(server)


def test_without_descriptors_the_client_that_rests_longest_makes_room(server: RestServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as open_:
        clients = [open_.enter_context(socket.socket()) for _ in range(40)]
        taken = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
        free = (number for number in count() if number not in taken)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, 8, None)), hard))
        open_.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for client in clients:
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", server.port))
        last = clients[-1]
        last.sendall(ONE)
        assert last.recv(1 << 16).endswith(b"here")


def test_slow_readers_hold_no_more_than_all_may(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[str] = []

    def counted(request: Request) -> Response:
        handled.append(request.target)
        return handle(request)

    def waiting() -> int:
        return sum(bool(connection.unsent) for connection in list(server._connections.values()))

    monkeypatch.setattr(rest_server, "MAX_UNSENT_BYTES", 3 * len(ANSWER))
    monkeypatch.setattr(server, "_handle", counted)
    with ExitStack() as open_:
        for _ in range(10):
            client = open_.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert any(len(handled) == 10 and len(server._connections) <= 4 for _ in poll())
        assert 1 <= waiting() <= 4
        assert answers(server)


def test_the_number_of_connections_leaves_descriptors_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    server = RestServer(0, 1, handle)
    assert server._most == 50
    server.start()
    server.stop(PATIENCE)
