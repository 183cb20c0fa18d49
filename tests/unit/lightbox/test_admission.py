"""Who is let in, who waits, who is turned away."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from lightbox.admission import RECEIVED_HEADER, Admission
from support.stack import poll


class Gate:
    """An app whose requests stay in until the gate is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.opened.wait(10)
        with self._lock:
            self.inside -= 1
        start_response("200 OK", [])
        return [b"done"]


def call(app: Admission, **environ: Any) -> tuple[str, dict[str, str], bytes]:
    said: list[Any] = []
    body = b"".join(app(environ, lambda *args: said.extend(args)))
    return said[0], dict(said[1]), body


def wait_for(condition: Callable[[], bool]) -> None:
    assert any(condition() for _ in poll(10, 0.005))


LATE = {RECEIVED_HEADER: "1"}


def late(app: Gate) -> Admission:
    return Admission(app, in_progress=1, deadline_seconds=1)


def start(pool: ThreadPoolExecutor, app: Admission, count: int) -> list[Future[Any]]:
    return [pool.submit(call, app) for _ in range(count)]


def test_so_many_work_and_the_others_wait() -> None:
    gate = Gate()
    app = Admission(gate, in_progress=2, deadline_seconds=30)
    with ThreadPoolExecutor(8) as pool:
        accepted = start(pool, app, 5)
        wait_for(lambda: gate.inside == 2)
        gate.opened.set()
        assert [future.result()[0] for future in accepted] == ["200 OK"] * 5
    assert gate.most == 2


def test_the_body_of_a_request_that_is_not_begun_is_read() -> None:
    body = io.BytesIO(bytes(1 << 20))
    assert call(late(Gate()), **LATE, **{"wsgi.input": body})[0][:3] == "504"
    assert body.tell() == 1 << 20


def test_a_request_whose_time_passed_is_not_started() -> None:
    gate = Gate()
    gate.opened.set()
    app = Admission(gate, 1, deadline_seconds=1)
    assert call(app, **{RECEIVED_HEADER: str(time.time() - 5)})[0] == "504 Gateway Timeout"
    assert gate.most == 0
    assert call(app, **{RECEIVED_HEADER: str(time.time())})[0] == "200 OK"
    assert call(app, **{RECEIVED_HEADER: "yesterday"})[0] == "200 OK"


def test_a_wait_ends_with_the_deadline() -> None:
    gate = Gate()
    app = Admission(gate, 1, deadline_seconds=0.1)
    with ThreadPoolExecutor(1) as pool:
        (first,) = start(pool, app, 1)
        wait_for(lambda: gate.inside == 1)
        assert call(app)[0].startswith("504")
        gate.opened.set()
        assert first.result()[0] == "200 OK"


@pytest.mark.parametrize("unread", [b"", b"body"])
@pytest.mark.parametrize("gone", [True, False])
def test_a_caller_that_hung_up_is_not_served(gone: bool, unread: bytes) -> None:
    gate = Gate()
    gate.opened.set()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(unread)
        if gone:
            theirs.close()
        call(Admission(gate, 1, 1), **{"gunicorn.socket": ours})
    assert gate.most == (0 if gone else 1)


def test_a_failing_app_gives_its_place_back() -> None:
    def fail(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        raise RuntimeError

    app = Admission(fail, 1, 1)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            call(app)


def test_on_the_endpoint_route_a_refusal_is_a_model_error() -> None:
    status, headers, body = call(late(Gate()), PATH_INFO="/endpoints/any/invocations", **LATE)
    assert (status[:3], headers["x-amzn-ErrorType"], headers["Retry-After"]) == ("424", "ModelError", "1")
    assert orjson.loads(body)["OriginalStatusCode"] == 504
