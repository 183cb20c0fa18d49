"""HTTP of the REST API: requests do not depend on how their bytes are split, and one client does not affect others."""

from __future__ import annotations

import itertools
import socket
import weakref
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightbox.model_runtime.server.rest import http_server
from lightbox.model_runtime.server.rest.http_messages import Request, Response
from lightbox.model_runtime.server.rest.http_server import RestServer
from support.patience import PATIENCE, poll

ANSWER = bytes(16 << 20)
"""More than the kernel buffers for a client that does not read."""
BODIES = st.binary(max_size=50)
LIMIT = settings(max_examples=100, deadline=None)
SMALL = b"GET /small HTTP/1.1\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\n\r\n"


class Server(RestServer):
    """Answers with a small response, or one larger than a socket's buffer."""

    def __init__(self) -> None:
        super().__init__(0, 4, self.handle)
        self.bodies: list[bytes] = []
        self.requests: list[weakref.ref[Request]] = []

    def handle(self, request: Request) -> Response:
        self.bodies.append(bytes(request.body))
        self.requests.append(weakref.ref(request))
        return Response(200, ANSWER if request.target == "/large" else b"here", "text/plain")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def answers(self, client: socket.socket) -> bool:
        client.sendall(SMALL)
        return client.recv(1 << 16).endswith(b"here")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    found.start()
    yield found
    found.stop(PATIENCE)


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@given(BODIES, st.integers(0, 9), st.lists(st.integers(0, 200), max_size=9))
@LIMIT
def test_any_cut_gives_the_same_request(server: Server, body: bytes, size: int, cuts: list[int]) -> None:
    data = b"\r\nPOST / HTTP/1.1\r\nX-A:  b \r\n"
    if size:
        data += b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, size)
    else:
        data += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    places = sorted({cut % len(data) for cut in cuts} | {0, len(data)})
    with server.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in itertools.pairwise(places):
            client.sendall(data[start:end])
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1 << 16).endswith(b"here")
    assert server.bodies.pop() == body


@given(st.binary(max_size=300))
@LIMIT
def test_any_bytes_get_an_answer_or_none(server: Server, data: bytes) -> None:
    with server.connect() as client:
        client.sendall(data + b"\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1 << 16).startswith(b"HTTP/1.") or not data.strip(b"\r\n")


@pytest.mark.parametrize(
    "rest", [b"Content-Length: 1\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"]
)
def test_a_body_does_not_stay_behind(server: Server, rest: bytes) -> None:
    with server.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\n" + rest)
        assert client.recv(1 << 16).endswith(b"here")
        request = server.requests[-1]
        assert any(request() is None for _ in poll())


def test_a_slow_reader_gets_all_of_its_response(server: Server) -> None:
    with server.connect() as client:
        client.sendall(LARGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        received = 0
        while data := client.recv(1 << 20):
            received += len(data)
    assert received > len(ANSWER)


def test_who_asks_again_before_the_response_is_read_is_closed(server: Server) -> None:
    with server.connect() as client:
        handled = len(server.bodies)
        client.sendall(LARGE)
        assert any(len(server.bodies) > handled and max(held(server)) > 0 for _ in poll())
        client.sendall(SMALL)
        received = b""
        while data := client.recv(1 << 20):
            received += data
    assert received.count(b"HTTP/1.1 200") == 1


def held(server: Server) -> list[int]:
    """Return the unsent bytes of each connection."""
    return [connection.transport.get_write_buffer_size() for connection in list(server.connections)] or [0]


@pytest.mark.parametrize("sent", [b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1", LARGE])
def test_who_stalls_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    with server.connect() as rests, server.connect() as client:
        assert server.answers(rests)
        client.sendall(sent)
        assert any(len(server.connections) == 2 for _ in poll())
        monkeypatch.setattr(http_server, "STALL_SECONDS", 0.1)
        assert any(len(server.connections) == 1 for _ in poll())
        assert server.answers(rests)


def test_the_client_that_rests_longest_makes_room(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_most", 4)
    with ExitStack() as open_:
        clients = [open_.enter_context(server.connect()) for _ in range(3)]
        assert all(server.answers(client) for client in clients)
        clients[0].sendall(b"GET / HT")
        more = [open_.enter_context(server.connect()) for _ in range(2)]
        assert all(server.answers(client) for client in more)
        assert clients[1].recv(1) == b""
        assert server.answers(clients[2])
