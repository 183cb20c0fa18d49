"""The benchmark's load generator, against a small real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from benchmark import clients as base
from benchmark.clients import Load, Sample
from benchmark.clients.http import HttpClient
from benchmark.servers import Address
from support.http_server import QuietHandler, serving
from support.patience import PATIENCE

ANSWER = b"x" * 3000
SLOW_SECONDS = 0.05


class Handler(QuietHandler):
    """Responds to each POST with ANSWER or an error.

    /slow takes at least SLOW_SECONDS, after it waits for ``meeting``.
    """

    protocol_version = "HTTP/1.1"
    in_progress = 0
    most_in_progress = 0
    lock = threading.Lock()
    meeting = threading.Barrier(1)

    def do_POST(self) -> None:
        cls = type(self)
        with cls.lock:
            cls.in_progress += 1
            cls.most_in_progress = max(cls.most_in_progress, cls.in_progress)
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            cls.meeting.wait(PATIENCE)
            time.sleep(SLOW_SECONDS)
        with cls.lock:
            cls.in_progress -= 1
        if self.path == "/close":
            self.close_connection = True
            return
        self.send_response({"/bad": 400, "/busy": 503}.get(self.path, 200))
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)


@pytest.fixture
def address() -> Iterator[Address]:
    Handler.most_in_progress = 0
    Handler.meeting = threading.Barrier(1)
    with serving(Handler) as url:
        yield Address(int(url.rpartition(":")[2]))


def run(address: Address, path: str, load: Load, body: bytes = b"1234567") -> Sample:
    return base.run(HttpClient(body, "text/plain", path), address, load)


@pytest.mark.parametrize("clients", [1, 4])
def test_a_closed_loop_sends_so_many_from_so_many(address: Address, clients: int) -> None:
    Handler.meeting = threading.Barrier(clients)
    sample = run(address, "/slow", Load(20, clients))
    assert (sample.responses, sample.errors, len(sample.latencies)) == (20, 0, 20)
    assert min(sample.latencies) >= SLOW_SECONDS
    assert Handler.most_in_progress == clients
    assert sample.bytes_sent == 20 * len(b"1234567")


def test_an_open_loop_does_not_wait_for_answers(address: Address) -> None:
    Handler.meeting = threading.Barrier(30)  # all requests arrive before the first response
    sample = run(address, "/slow", Load(30, rate=200))
    assert sample.responses == 30
    assert Handler.most_in_progress == 30
    assert min(sample.latencies) >= SLOW_SECONDS


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/bad", "HTTP 400: xxx"), ("/close", "ConnectionResetError: the server closed the connection")],
)
def test_failures_are_counted_and_the_first_is_kept(address: Address, path: str, reason: str) -> None:
    sample = run(address, path, Load(6, 2))
    assert (sample.responses, sample.errors) == (0, 6)
    assert sample.first_error.startswith(reason)


def test_a_refusal_is_an_error_whose_time_is_known(address: Address) -> None:
    sample = run(address, "/busy", Load(4))
    assert (sample.responses, sample.errors, len(sample.refused)) == (0, 4, 4)
