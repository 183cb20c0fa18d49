"""The tests' HTTP/2 client, against a server of the gRPC library."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from support.h2_caller import H2Caller
from support.patience import PATIENCE, poll

HEADERS = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/tiny/echo",
    ":authority": "localhost",
    "te": "trailers",
    "content-type": "application/grpc",
}
LARGE = b"x" * 300_000
"""More than the windows of a connection and a stream have at first."""


def message(content: bytes) -> bytes:
    return b"\0" + len(content).to_bytes(4, "big") + content


class Tiny:
    """A server whose ``echo`` returns what it gets, and whose ``hang`` answers when ``go`` is set."""

    def __init__(self, folder: Path) -> None:
        self.go, self.inside = threading.Event(), threading.Semaphore(0)
        self.address = str(folder / "tiny.sock")
        self.server = grpc.server(ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    "tiny",
                    {
                        "echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
                        "hang": grpc.unary_unary_rpc_method_handler(self._hang),
                    },
                )
            ]
        )
        self.server.add_insecure_port(f"unix:{self.address}")

    def start(self) -> Tiny:
        self.server.start()
        return self

    def _hang(self, request: bytes, context: Any) -> bytes:
        self.inside.release()
        assert self.go.wait(PATIENCE)
        return request


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Tiny]:
    server = Tiny(tmp_path)
    yield server.start()
    server.go.set()
    server.server.stop(None).wait(PATIENCE)


def call(caller: H2Caller, content: bytes, path: str = "/tiny/echo") -> int:
    """Start a call and send its whole message."""
    stream = caller.open(HEADERS | {":path": path})
    caller.send(stream, message(content), end=True)
    return stream


def test_a_call_is_headers_data_and_trailers(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        reply = caller.answer(call(caller, b"abc"))
        assert (reply.headers[":status"], bytes(reply.data), reply.word("grpc-status")) == ("200", message(b"abc"), "0")
        assert (reply.reset, reply.ended, caller.closed, caller.goaways) == (None, True, False, [])
        assert caller.answer(call(caller, b"", "/tiny/none")).word("grpc-status") == "12"
        assert caller.answer(call(caller, LARGE)).data == message(LARGE)


def test_over_tls(tmp_path: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    key, certificate = (tmp_path / "key.pem").read_bytes(), (tmp_path / "cert.pem").read_bytes()
    server = Tiny(tmp_path)
    port = server.server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    server.start()
    try:
        with H2Caller(port, ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))) as caller:
            assert caller.answer(call(caller, LARGE)).data == message(LARGE)
        with pytest.raises(ssl.SSLCertVerificationError):
            H2Caller(port, ssl.create_default_context())
    finally:
        server.server.stop(None).wait(PATIENCE)


def test_pieces_of_a_message_and_of_a_call_that_never_ends(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        whole, never = message(b"abc"), caller.open(HEADERS)
        stream = caller.open(HEADERS)
        for place in range(len(whole)):
            assert caller.push(stream, whole[place : place + 1]) == 1
        caller.send(stream, b"", end=True)
        assert caller.answer(stream).data == whole
        assert not caller[never].ended
        with pytest.raises(TimeoutError, match="nothing of what was waited for"):
            caller.wait(lambda: caller[never].ended, seconds=0.1)


def test_windows_that_stay_shut_and_open(tiny: Tiny) -> None:
    with H2Caller(tiny.address, settings={SettingCodes.INITIAL_WINDOW_SIZE: 0}, grants=False) as caller:
        stream = call(caller, b"abc")
        caller.wait(lambda: caller[stream].headers != {})
        caller.ping(b"12345678")
        caller.wait(lambda: caller.pongs == [b"12345678"])
        assert (bytes(caller[stream].data), caller[stream].ended) == (b"", False)
        caller.grant(5, stream)
        caller.wait(lambda: len(caller[stream].data) == 5)
        caller.grant(100, stream)
        assert caller.answer(stream).data == message(b"abc")


def test_what_the_servers_windows_leave_is_sent_and_no_more(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        caller.hear()
        whole = message(bytes(1 << 26))
        stream = caller.open(HEADERS)
        sent = caller.push(stream, whole)
        assert 0 < sent < len(whole)
        assert caller.push(stream, whole[sent:]) == 0


def test_a_reset_ends_a_call_on_both_sides(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        stream = call(caller, b"abc", "/tiny/hang")
        assert tiny.inside.acquire(timeout=PATIENCE)
        caller.reset(stream)
        tiny.go.set()
        assert caller.answer(call(caller, b"abc")).word("grpc-status") == "0"
        assert not caller[stream].data


def test_a_reset_of_the_server_is_reported(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        stream = caller.open(HEADERS | {":path": "/tiny/hang", "grpc-timeout": "100m"})
        caller.send(stream, message(b"abc"))
        assert caller.answer(stream).word("grpc-status") == "4"  # the call ends before the caller ends its stream
        caller.wait(lambda: caller[stream].reset is not None)
        assert caller[stream].reset in (ErrorCodes.NO_ERROR, ErrorCodes.CANCEL)


def test_calls_are_answered_after_a_goaway(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        stream = call(caller, b"abc", "/tiny/hang")
        assert tiny.inside.acquire(timeout=PATIENCE)
        stopped = tiny.server.stop(PATIENCE)
        caller.wait(lambda: bool(caller.goaways))
        tiny.go.set()
        assert caller.answer(stream).data == message(b"abc")
        caller.wait(lambda: caller.closed)
        assert stopped.wait(PATIENCE)
        assert caller.goaways[-1] == (ErrorCodes.NO_ERROR, stream)


def test_a_flood_of_resets_blocks_neither_side(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        for _ in range(3000):
            caller.reset(caller.open(HEADERS))
    with H2Caller(tiny.address) as caller:  # gRPC refuses some calls until it has handled the resets
        assert any(caller.answer(call(caller, b"abc")).word("grpc-status") == "0" for _ in poll())


def test_what_is_no_http2_closes_the_connection_and_ends_every_wait(tiny: Tiny) -> None:
    with H2Caller(tiny.address) as caller:
        caller.send_raw(b"\xff" * 100)
        caller.wait(lambda: caller.closed)

        assert not caller.answer(caller.open(HEADERS)).ended
