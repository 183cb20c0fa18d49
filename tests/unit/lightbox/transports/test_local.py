"""The local transport when its server is away, stuck, full, stopping, or replaced by another one."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from lightbox.base.errors import DeadlineExceeded, ModelFailed, ModelServerUnreachable, Unavailable
from lightbox.base.request_context import RequestContext
from lightbox.model.plan import AnsweringServers, ModelServerAddress
from lightbox.model.spec import SignatureSpec
from lightbox.model_runtime.server.local_server import Predict
from lightbox.model_runtime.wire.local_frames import GREETING, REQUEST_HEADER, share
from lightbox.model_runtime.wire.status import Code, StatusError
from lightbox.transports import local
from lightbox.transports.balanced import BalancedTransport
from lightbox.transports.grpc import GrpcTransport
from lightbox.transports.local import LocalTransport
from support.local_transport import asked, call, doubled, falling_back, serving
from support.patience import PATIENCE, poll


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def transport(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalTransport]:
    with falling_back(path, monkeypatch) as transport:
        yield transport


class Brief(RequestContext):
    """A context that always has 0.3 s left, at each step of a call."""

    def remaining(self) -> float:
        return 0.3


DOUBLED = ("local", [0.0, 2.0, 4.0])
BY_GRPC = ("grpc", [7.0])


def test_without_memory_it_is_grpc(path: Path, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with serving(path), monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        assert asked(transport) == BY_GRPC
    with serving(path):
        assert asked(transport) == DOUBLED


def test_calls_of_several_threads(path: Path, transport: LocalTransport) -> None:
    with serving(path, most=8), ThreadPoolExecutor(8) as pool:
        for size, (wire, found) in zip(
            range(200), pool.map(lambda size: asked(transport, size), range(200)), strict=True
        ):
            assert (wire, found) == ("local", [2.0 * number for number in range(size)])


def test_where_nobody_listens_it_is_grpc(path: Path, transport: LocalTransport) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
        assert asked(transport) == BY_GRPC


def test_another_program_at_the_socket_gets_no_request(path: Path, transport: LocalTransport) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def greet() -> bytes:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"LBWIRE99")
                return connection.recv(100)

        with ThreadPoolExecutor(1) as pool:
            got = pool.submit(greet)
            assert asked(transport) == BY_GRPC
            assert got.result() == b""


def held() -> tuple[threading.Event, threading.Event, Predict]:
    """Return an event that a predict function sets at its start, an event that it waits for, and the function."""
    entered, leave = threading.Event(), threading.Event()

    def predict(request: memoryview, seconds: float) -> bytes:
        entered.set()
        assert leave.wait(PATIENCE)
        return doubled(request, seconds)

    return entered, leave, predict


def test_a_server_that_came_back_is_found_by_the_next_call(path: Path, transport: LocalTransport) -> None:
    for _ in range(3):
        with serving(path):
            assert asked(transport) == DOUBLED
        assert asked(transport) == BY_GRPC


def test_a_full_server_leaves_calls_to_grpc(path: Path, transport: LocalTransport) -> None:
    entered, leave, predict = held()
    with serving(path, predict, most=1), ThreadPoolExecutor(1) as pool:
        first = pool.submit(asked, transport)
        assert entered.wait(PATIENCE)
        assert asked(transport) == BY_GRPC
        leave.set()
        assert first.result() == DOUBLED


def test_a_message_over_the_limit_goes_over_grpc(
    path: Path, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_REQUEST_BYTES", 1000)
    with serving(path):
        assert asked(transport) == DOUBLED
        assert asked(transport, 1000) == BY_GRPC


def test_a_server_refuses_a_length_over_the_limit(path: Path) -> None:
    with serving(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert client.recv(len(GREETING), socket.MSG_WAITALL) == GREETING
        share(client, mmap.PAGESIZE)
        client.sendall(b"\xff" * REQUEST_HEADER.size)
        assert client.recv(1) == b""


@pytest.mark.parametrize("greeting", [b"", GREETING], ids=["before its greeting", "after it"])
@pytest.mark.parametrize("size", [3, 1_000_000])
def test_a_stuck_server_is_waited_for_until_the_deadline(
    path: Path, transport: LocalTransport, greeting: bytes, size: int
) -> None:
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(path))
        listener.listen()
        accepted = pool.submit(listener.accept)

        def greet() -> None:
            with suppress(OSError):  # the call may be over already
                accepted.result()[0].sendall(greeting)

        context = Brief(0.3)
        threading.Thread(target=greet).start()
        with pytest.raises(DeadlineExceeded):
            transport.predict(call(size), context)
        assert context.elapsed() >= 0.3
        accepted.result()[0].close()


def test_after_a_deadline_the_next_call_gets_its_own_answer(path: Path, transport: LocalTransport) -> None:
    leave, allowed = threading.Event(), list[float]()

    def predict(request: memoryview, seconds: float) -> bytes:
        allowed.append(seconds)
        if len(allowed) == 2:
            assert leave.wait(PATIENCE)
        return doubled(request, seconds)

    with serving(path, predict) as server:
        assert asked(transport) == DOUBLED  # opens a connection: the next call then reaches the server
        with pytest.raises(DeadlineExceeded):
            asked(transport, 5, Brief(0.3))
        assert any(len(allowed) == 2 for _ in poll())
        assert asked(transport) == DOUBLED
        leave.set()
    assert 0 < allowed[1] <= 0.3 < allowed[2] <= PATIENCE
    assert not server.connections()


def test_a_call_that_has_arrived_is_answered_before_a_stop(path: Path, transport: LocalTransport) -> None:
    entered, leave, predict = held()
    with serving(path, predict) as server, ThreadPoolExecutor(2) as pool:
        under_way = pool.submit(asked, transport)
        assert entered.wait(PATIENCE)
        stopped = pool.submit(server.stop, PATIENCE)
        assert asked(transport) == BY_GRPC or not stopped.done()
        leave.set()
        assert under_way.result() == DOUBLED
        stopped.result()
    assert asked(transport) == BY_GRPC


def test_a_connection_that_rests_does_not_hold_a_stop_up(path: Path, transport: LocalTransport) -> None:
    with serving(path) as server:
        assert asked(transport) == DOUBLED
        server.stop(PATIENCE)
        assert not server.connections()


def test_of_two_servers_the_one_that_is_there_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: GrpcTransport, __: bytes, ___: SignatureSpec, ____: RequestContext) -> bytes:
        raise ModelServerUnreachable("gone")

    monkeypatch.setattr(GrpcTransport, "send", away)
    transports = [LocalTransport(tmp_path / name, "127.0.0.1:1") for name in "ab"]
    balanced = BalancedTransport(
        transports, AnsweringServers([ModelServerAddress(grpc_socket=tmp_path / name) for name in "ab"])
    )
    for name in "aba":  # each server goes away once
        with serving(tmp_path / name):
            for _ in range(4):
                assert balanced.predict(call(), RequestContext(PATIENCE))["y"].tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(ModelServerUnreachable):
        balanced.predict(call(), RequestContext(PATIENCE))
    for transport in transports:
        transport.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [(Code.INTERNAL, ModelFailed), (Code.UNAVAILABLE, Unavailable), (Code.RESOURCE_EXHAUSTED, Unavailable)],
)
def test_errors_leave_the_connection_as_it_was(
    path: Path, transport: LocalTransport, code: Code, kind: type[Exception]
) -> None:
    answers = iter([StatusError(code, "first ünd"), None])

    def predict(request: memoryview, seconds: float) -> bytes:
        if error := next(answers):
            raise error
        return doubled(request, seconds)

    with serving(path, predict) as server:
        with pytest.raises(kind):
            asked(transport)
        assert asked(transport) == DOUBLED
        assert server.connections() == 1
