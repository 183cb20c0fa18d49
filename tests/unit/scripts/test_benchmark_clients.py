"""The benchmark's load generator, against a small real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest

from benchmark.clients.base import Load, Sample, run_one_by_one
from benchmark.clients.connection import http_request
from benchmark.clients.http import HttpClient
from benchmark.clients.process import ClientFailed, ClientProcess
from benchmark.servers.address import Address
from lightbox.client.invoke import read_server_timing
from support.http_server import serving
from support.patience import PATIENCE

ANSWER = b"x" * 3000
SLOW_SECONDS = 0.05


class Handler(BaseHTTPRequestHandler):
    """Answers; what is asked for at /slow takes SLOW_SECONDS at least, and waits until as many are in progress as meet.

    What is asked for at /tick takes a second of the clock that stands still otherwise.
    """

    protocol_version = "HTTP/1.1"
    in_progress = 0
    most_in_progress = 0
    lock = threading.Lock()
    meeting = threading.Barrier(1)
    seconds = 0.0

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
        self.send_response(200 if self.path != "/bad" else 400)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.send_header("Server-Timing", f"decode;dur=1.5, total;dur={len(body)}")
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[Address]:
    Handler.most_in_progress = 0
    Handler.meeting = threading.Barrier(1)
    with serving(Handler) as url:
        yield Address(int(url.rpartition(":")[2]))


def run(address: Address, path: str, load: Load, body: bytes = b"1234567") -> Sample:
    session = HttpClient(body, "text/plain", path).open(address)
    try:
        return session.run(load)
    finally:
        session.close()


@pytest.mark.parametrize("clients", [1, 4])
def test_a_closed_loop_sends_so_many_from_so_many(address: Address, clients: int) -> None:
    Handler.meeting = threading.Barrier(clients)
    sample = run(address, "/slow", Load(20, clients))
    assert (sample.answers, sample.errors, len(sample.latencies)) == (20, 0, 20)
    assert min(sample.latencies) >= SLOW_SECONDS
    assert Handler.most_in_progress == clients
    assert sample.stages == {"decode": [1.5] * 20, "total": [7.0] * 20}


def test_bytes_are_counted_both_ways(address: Address) -> None:
    request = http_request(f"127.0.0.1:{address.port}", "/", {"Content-Type": "text/plain"}, b"1234567")
    sample = run(address, "/", Load(5))
    assert sample.bytes_sent == 5 * len(request)
    assert sample.bytes_received > 5 * len(ANSWER)


def test_a_body_larger_than_the_sockets_buffers_arrives_whole(address: Address) -> None:
    sample = run(address, "/", Load(3), body=bytes(20_000_000))
    assert sample.stages["total"] == [20_000_000.0] * 3


def test_waves_start_together(address: Address) -> None:
    Handler.meeting = threading.Barrier(4)
    sample = run(address, "/slow", Load(12, 4, waves=True))
    assert (sample.answers, len(sample.latencies)) == (12, 3)
    assert Handler.most_in_progress == 4


def test_an_open_loop_does_not_wait_for_answers(address: Address) -> None:
    Handler.meeting = threading.Barrier(30)  # none is answered before the last has come
    sample = run(address, "/slow", Load(30, rate=200))
    assert sample.answers == 30
    assert Handler.most_in_progress == 30
    assert min(sample.latencies) >= SLOW_SECONDS


@pytest.mark.parametrize(("path", "reason"), [("/bad", "HTTP 400: xxx"), ("/close", "Broken: the server closed")])
def test_failures_are_counted_and_the_first_is_kept(address: Address, path: str, reason: str) -> None:
    sample = run(address, path, Load(6, 2))
    assert (sample.answers, sample.errors) == (0, 6)
    assert sample.first_error.startswith(reason)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the load generator's clock go by requests to /tick alone, not by what the machine takes."""
    own = SimpleNamespace(perf_counter=lambda: Handler.seconds, process_time=time.process_time)
    monkeypatch.setattr("benchmark.clients.http.time", own)


@pytest.mark.usefixtures("clock")
def test_nothing_is_sent_after_the_most_seconds(address: Address) -> None:
    assert run(address, "/tick", Load(1000, most_seconds=4)).answers == 5


@pytest.mark.usefixtures("clock")
def test_who_will_soon_have_sent_all_goes_on_after_the_most_seconds(address: Address) -> None:
    assert run(address, "/tick", Load(8, most_seconds=0.5, patience=60)).answers == 8
    assert run(address, "/tick", Load(1000, most_seconds=0.5, patience=2)).answers == 1


def test_a_client_in_its_own_process(address: Address) -> None:
    with ClientProcess(HttpClient(b"body", "text/plain"), address) as client:
        assert client.run(Load(3)).answers == 3
        assert client.run(Load(2)).answers == 2


def test_a_client_that_cannot_connect_says_so(closed_port: int) -> None:
    nobody = Address(closed_port)
    with ClientProcess(HttpClient(b"body", "text/plain"), nobody) as client, pytest.raises(ClientFailed) as caught:
        client.run(Load(1))
    assert "ConnectionRefusedError" in str(caught.value)


def test_calls_one_by_one_note_what_fails() -> None:
    def call(sample: Sample) -> None:
        sample.bytes_sent += 1
        if sample.bytes_sent == 2:
            raise ValueError("no")

    sample = run_one_by_one(Load(3), call)
    assert (sample.answers, sample.errors, sample.first_error) == (2, 1, "ValueError: no")


def test_server_timing_is_read() -> None:
    assert read_server_timing('decode;dur=1.25, cache;desc="hit", total;desc=all;dur=3') == {"decode": 1.25, "total": 3}
    assert read_server_timing("") == {}
