"""The load generator, against a small local server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from lightbox.tune.load import Load, LoadFailed
from support import http_server
from support.patience import PATIENCE


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: set[object]
    bodies: list[bytes]
    status = 200
    answer = b"{}"
    silence: threading.Event | None = None

    def do_POST(self) -> None:
        self.connections.add(self.client_address)
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.silence is not None:
            self.silence.wait(PATIENCE)
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing."""


@contextmanager
def serving(**attributes: object) -> Iterator[tuple[int, type[Handler]]]:
    handler = type("ThisHandler", (Handler,), {"connections": set(), "bodies": [], **attributes})
    with http_server.serving(handler) as url:
        yield int(url.rpartition(":")[2]), handler


def test_connections_are_kept_and_every_client_asks() -> None:
    with serving() as (port, handler), closing(Load(port, b"image", 4, PATIENCE)) as load:
        assert load.throughput(0.2) > 0
        began = time.perf_counter()
        assert 0 < load.latency(0.05) < time.perf_counter() - began
        assert set(handler.bodies) == {b"image"}
        assert len(handler.bodies) > 4
        assert len(handler.connections) == 4


def test_however_short_the_time_some_requests_are_made() -> None:
    with serving() as (port, handler), closing(Load(port, b"image", 2, PATIENCE)) as load:
        load.latency(0.0)
        assert len(handler.bodies) == 3


def test_an_answer_that_is_an_error_is_reported_with_its_sentence() -> None:
    body = b'{"error": "the queue is full", "code": "unavailable"}'
    with serving(status=503, answer=body) as (port, _), closing(Load(port, b"image", 2, PATIENCE)) as load:
        with pytest.raises(LoadFailed, match="answered with 503: the queue is full"):
            load.latency(0.1)
        with pytest.raises(LoadFailed, match="answered with 503: the queue is full"):
            load.throughput(0.1)


def test_an_error_that_is_no_json_is_reported_as_it_is() -> None:
    with (
        serving(status=500, answer=b"<h1>oh</h1>") as (port, _),
        closing(Load(port, b"image", 1, PATIENCE)) as load,
        pytest.raises(LoadFailed, match="answered with 500: <h1>oh</h1>"),
    ):
        load.latency(0.1)


def test_an_answer_that_takes_too_long_is_reported() -> None:
    silence = threading.Event()
    with serving(silence=silence) as (port, _), closing(Load(port, b"image", 1, 0.2)) as load:
        try:
            with pytest.raises(LoadFailed, match=r"took more than 0\.2 s"):
                load.latency(0.1)
        finally:
            silence.set()


def test_nobody_there_is_reported(closed_port: int) -> None:
    with closing(Load(closed_port, b"image", 1, PATIENCE)) as load, pytest.raises(LoadFailed, match="a request failed"):
        load.latency(0.1)
