"""The benchmark's load generator, against a small real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from benchmark import clients as base
from benchmark.clients import Load, Sample, client_process
from benchmark.clients.http import NEW_SESSION, SESSION, HttpClient
from benchmark.servers import Address
from lightbox.client.invoke import read_server_timing
from support.http_server import serving
from support.patience import PATIENCE

ANSWER = b"x" * 3000
SLOW_SECONDS = 0.05


class Handler(BaseHTTPRequestHandler):
    """Responds to each POST with ANSWER or an error.

    /slow takes at least SLOW_SECONDS, after it waits for ``meeting``. /tick advances ``Clock``, which otherwise stands
    still, by one second.
    """

    protocol_version = "HTTP/1.1"
    in_progress = 0
    most_in_progress = 0
    lock = threading.Lock()
    meeting = threading.Barrier(1)
    seconds = 0.0
    session = ""

    def do_POST(self) -> None:
        cls = type(self)
        with cls.lock:
            cls.in_progress += 1
            cls.most_in_progress = max(cls.most_in_progress, cls.in_progress)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            cls.meeting.wait(PATIENCE)
            time.sleep(SLOW_SECONDS)
        with cls.lock:
            cls.in_progress -= 1
            cls.seconds += self.path == "/tick"
        if self.path == "/close":
            self.close_connection = True
            return
        self.send_response({"/bad": 400, "/busy": 503}.get(self.path, 200))
        if self.headers.get(SESSION) == "NEW_SESSION":
            self.send_header(NEW_SESSION, "seven; Expires=2030")
        cls.session = self.headers.get(SESSION, "")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.send_header("Server-Timing", f"decode;dur=1.5, total;dur={len(body)}")
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


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
    assert (sample.answers, sample.errors, len(sample.latencies)) == (20, 0, 20)
    assert min(sample.latencies) >= SLOW_SECONDS
    assert Handler.most_in_progress == clients
    assert sample.stages == {"decode": [1.5] * 20, "total": [7.0] * 20}


def test_bytes_of_bodies_are_counted_both_ways(address: Address) -> None:
    sample = run(address, "/", Load(5))
    assert (sample.bytes_sent, sample.bytes_received) == (5 * 7, 5 * len(ANSWER))


def test_a_kept_body_is_sent_once(address: Address) -> None:
    sample = base.run(HttpClient(b"1234567", "text/plain", kept=True), address, Load(5))
    assert (sample.answers, sample.bytes_sent) == (5, 0)
    assert sample.stages["total"] == [0.0] * 5
    assert Handler.session == "seven"


def test_a_body_larger_than_the_sockets_buffers_arrives_whole(address: Address) -> None:
    sample = run(address, "/", Load(3), body=bytes(20_000_000))
    assert sample.stages["total"] == [20_000_000.0] * 3


def test_waves_start_together(address: Address) -> None:
    Handler.meeting = threading.Barrier(4)
    sample = run(address, "/slow", Load(12, 4, waves=True))
    assert (sample.answers, len(sample.latencies)) == (12, 3)
    assert Handler.most_in_progress == 4


def test_an_open_loop_does_not_wait_for_answers(address: Address) -> None:
    Handler.meeting = threading.Barrier(30)  # all requests arrive before the first response
    sample = run(address, "/slow", Load(30, rate=200))
    assert sample.answers == 30
    assert Handler.most_in_progress == 30
    assert min(sample.latencies) >= SLOW_SECONDS


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/bad", "HTTP 400: xxx"), ("/close", "ConnectionResetError: the server closed the connection")],
)
def test_failures_are_counted_and_the_first_is_kept(address: Address, path: str, reason: str) -> None:
    sample = run(address, path, Load(6, 2))
    assert (sample.answers, sample.errors) == (0, 6)
    assert sample.first_error.startswith(reason)


def test_a_refusal_is_an_error_whose_time_is_known(address: Address) -> None:
    sample = run(address, "/busy", Load(4))
    assert (sample.answers, sample.errors, len(sample.refused)) == (0, 4, 4)


class Clock:
    """The load generator's clock: only requests to /tick advance it."""

    process_time = staticmethod(time.process_time)

    @staticmethod
    def perf_counter() -> float:
        return Handler.seconds


def test_nothing_is_sent_after_the_most_seconds(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "time", Clock)
    assert run(address, "/tick", Load(1000, most_seconds=4)).answers == 5


def test_a_client_in_its_own_process(address: Address) -> None:
    with client_process(HttpClient(b"body", "text/plain"), address) as client:
        assert client(Load(3)).answers == 3
        assert client(Load(2)).answers == 2


def test_a_client_that_cannot_connect_says_so(closed_port: int) -> None:
    sample = run(Address(closed_port), "/", Load(2))
    assert (sample.answers, sample.errors) == (0, 2)
    assert sample.first_error.startswith("ConnectionRefusedError: ")


def test_server_timing_is_read() -> None:
    assert read_server_timing('decode;dur=1.25, cache;desc="hit", total;desc=all;dur=3') == {"decode": 1.25, "total": 3}
    assert read_server_timing("") == {}
