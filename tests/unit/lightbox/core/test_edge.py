"""The edge: admission, waiting, refusal, and the common form of every error."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from lightbox.base.error_bodies import http_bytes
from lightbox.base.errors import (
    BadRequest,
    HandlerFailed,
    LightboxError,
    ModelNotFound,
    NoRoom,
    QueueFull,
    RateLimited,
    TooLarge,
    Unavailable,
)
from lightbox.base.machine.temporary_storage import temporary_folder
from lightbox.base.request_context import Key, Turn, choose_request_id
from lightbox.base.telemetry.logs import FinishedRequest
from lightbox.core.edge import RECEIVED_HEADER, Edge, WsgiApp, as_lightbox_error
from lightbox.core.predictions import Predictions
from lightbox.core.shares import Shares
from lightbox.model.options import ModelOptions
from support.error_shape import assert_error
from support.fake_transport import FakeTransport
from support.fakes import fake_app, mean_server
from support.parameters import each
from support.patience import PATIENCE, poll


class Gate:
    """An app that holds its requests until ``opened`` is set."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.opened.wait(PATIENCE)
        with self._lock:
            self.inside -= 1
        start_response("200 OK", [])
        return [b"done"]


def call(app: WsgiApp, **environ: Any) -> tuple[str, dict[str, str], bytes]:
    said: list[Any] = []
    body = b"".join(app(environ, lambda *args: said.extend(args)))
    return said[0], dict(said[1]), body


def wait_for(condition: Callable[[], bool]) -> None:
    assert any(condition() for _ in poll(pause=0.005))


def long_ago() -> dict[str, str]:
    return {RECEIVED_HEADER: str(time.time() - PATIENCE)}


def late(app: Gate) -> Edge:
    return Edge(app, Shares(1), deadline_seconds=1)


def start(pool: ThreadPoolExecutor, app: Edge, count: int) -> list[Future[Any]]:
    return [pool.submit(call, app) for _ in range(count)]


def test_so_many_work_and_the_others_wait() -> None:
    gate = Gate()
    app = Edge(gate, Shares(2), deadline_seconds=PATIENCE)
    with ThreadPoolExecutor(8) as pool:
        accepted = start(pool, app, 5)
        wait_for(lambda: gate.inside == 2)
        gate.opened.set()
        assert [future.result()[0] for future in accepted] == ["200 OK"] * 5
    assert gate.most == 2


def test_the_body_of_a_request_that_is_not_begun_is_read() -> None:
    body = io.BytesIO(bytes(1 << 20))
    assert call(late(Gate()), **long_ago(), **{"wsgi.input": body})[0][:3] == "504"
    assert body.tell() == 1 << 20


def test_a_wait_ends_with_the_deadline() -> None:
    gate = Gate()
    app = Edge(gate, Shares(1), deadline_seconds=0.1)
    with ThreadPoolExecutor(1) as pool:
        (first,) = start(pool, app, 1)
        wait_for(lambda: gate.inside == 1)
        assert call(app)[0].startswith("504")
        gate.opened.set()
        assert first.result()[0] == "200 OK"


@each("unread", [b"", b"body"])
@each("gone", [True, False])
def test_a_caller_that_hung_up_is_not_served(gone: bool, unread: bytes) -> None:
    gate = Gate()
    gate.opened.set()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(unread)
        if gone:
            theirs.close()
        call(Edge(gate, Shares(1), 1), **{"gunicorn.socket": ours})
    assert gate.most == (0 if gone else 1)


def test_a_failing_app_gives_its_slot_back_and_is_answered() -> None:
    def fail(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        raise RuntimeError("secret")

    app = Edge(fail, Shares(1), 1)
    for _ in range(3):
        status, headers, body = call(app, HTTP_X_REQUEST_ID="mine")
        assert "secret" not in assert_error(int(status[:3]), headers, body, "/", "internal", "mine")


def test_an_app_that_fails_after_its_first_words_is_answered_too() -> None:
    def fail(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [("X-A", "b")])
        raise ModelNotFound("there is no such model")

    started: list[Any] = []
    app = Edge(fail, Shares(1), 1)
    list(app({}, lambda *args: started.append(args)))
    assert [args[0] for args in started] == ["200 OK", "404 Not Found"]
    assert started[1][2][0] is ModelNotFound  # WSGI's exc_info: a server discards the headers that it has not sent


class Watcher:
    """Records finished requests."""

    def __init__(self) -> None:
        self.heard: list[FinishedRequest] = []

    def responded(self, request: FinishedRequest) -> None:
        self.heard.append(request)


def test_observers_hear_of_each_response_once() -> None:
    watcher, gate = Watcher(), Gate()
    gate.opened.set()
    app = Edge(gate, Shares(1), 1, [watcher])
    call(app, REQUEST_METHOD="POST", PATH_INFO="/invocations", CONTENT_LENGTH="12", HTTP_X_AMZN_REQUESTID="one")
    (good,) = watcher.heard
    assert (good.request_id, good.status, good.bytes_in) == ("one", 200, 12)
    watcher.heard.clear()
    call(app, HTTP_X_AMZN_REQUESTID="two", CONTENT_LENGTH="²", **long_ago())
    (late,) = watcher.heard
    assert (late.request_id, late.status, late.error_code, late.bytes_in) == ("two", 504, "waited_too_long", 0)


def test_what_the_supervisor_asks_is_no_request() -> None:
    watcher, gate = Watcher(), Gate()
    gate.opened.set()
    call(Edge(gate, Shares(1), 1, [watcher]), PATH_INFO="/internal/probe")
    assert watcher.heard == []


class Full(Shares):
    """Shares without a place for a request."""

    def __init__(self, error: LightboxError) -> None:
        super().__init__(1)
        self._error = error
        self.paused: list[float] = []

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    def enter(self, model: str | None, seconds: float, key: Key | None = None, batch: bool = False) -> Turn:
        raise self._error


@each("error", [QueueFull("no place"), RateLimited("no more of this key")])
def test_the_refusal_of_a_share_is_answered_and_observed(error: Unavailable) -> None:
    watcher = Watcher()
    shares = Full(error)
    status, headers, body = call(Edge(Gate(), shares, PATIENCE, [watcher]))
    assert shares.paused == [pytest.approx(PATIENCE, abs=PATIENCE / 2)]
    assert (int(status[:3]), json.loads(body)["code"]) == (error.status, error.code)
    assert headers["Retry-After"]
    assert [response.error_code for response in watcher.heard] == [error.code]


@each(
    ("headers", "chosen"),
    [
        ({"X-Amzn-RequestId": "a", "X-Request-Id": "b", "X-Amzn-SageMaker-Inference-Id": "c"}, "a"),
        ({"X-Amzn-RequestId": "no plain one", "X-Request-Id": "b"}, "b"),
        ({"X-Amzn-SageMaker-Inference-Id": "c"}, "c"),
        ({"X-Amzn-RequestId": "a" * 129}, None),
        ({"X-Amzn-RequestId": "a\n"}, None),
        ({}, None),
    ],
)
def test_the_callers_id_is_taken_where_it_is_a_plain_one(headers: dict[str, str], chosen: str | None) -> None:
    found = choose_request_id(headers.get)
    assert found == chosen if chosen else len(found) == 32


ROUTES = [
    ("POST", "/invocations"),
    ("POST", "/models/mean/invoke"),
    ("POST", "/endpoints/any/invocations"),
    ("POST", "/endpoints/any/invocations-response-stream"),
    ("GET", "/execution-parameters"),
    ("GET", "/v2"),
    ("GET", "/v2/models/mean"),
    ("GET", "/v2/models/mean/ready"),
    ("GET", "/v2/models/mean/config"),
    ("GET", "/v2/models/mean/stats"),
    ("GET", "/v2/models/stats"),
    ("POST", "/v2/models/mean/infer"),
    ("POST", "/v2/models/mean/versions/1/infer"),
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/mean/load"),
    ("POST", "/v2/repository/models/mean/unload"),
    ("GET", "/internal/probe"),
    ("GET", "/internal/probe/mean/1"),
]
FAILURES = [
    (BadRequest("x is wrong"), "bad_request"),
    (ModelNotFound("there is no such model"), "model_not_found"),
    (TooLarge("too large"), "too_large"),
    (NoRoom("no room"), "no_room"),
    (Unavailable("overloaded", retry_after=3), "unavailable"),
    (HandlerFailed("handler failed: ZeroDivisionError: division by zero"), "handler_failed"),
    (RuntimeError("a secret of ours"), "internal"),
]


@pytest.mark.parametrize(("verb", "path"), ROUTES, ids=[path for _, path in ROUTES])
def test_every_route_gives_every_error_in_one_form(
    verb: str, path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = mean_server()
    app = fake_app(transport, {"mean": ModelOptions()})
    known = set(app.view_functions)
    app.testing = False
    for number, (failure, code) in enumerate(FAILURES):

        def fail(*_: object, raised: Exception = failure, **__: object) -> Any:
            raise raised

        app.view_functions = dict.fromkeys(known, fail)
        monkeypatch.setattr(Predictions, "_answer", fail)
        mine = f"mine-{number}"
        caplog.clear()
        answer = app.test_client().open(path, method=verb, headers={"X-Amzn-RequestId": mine})
        said = assert_error(answer.status_code, answer.headers, answer.data, path, code, mine)
        assert said == (failure.message if isinstance(failure, LightboxError) else "internal error: RuntimeError")
        assert answer.headers.get("Retry-After") == ("3" if code == "unavailable" else None)
        tracebacks = [record for record in caplog.records if record.exc_info and mine in record.getMessage()]
        assert len(tracebacks) == (code == "internal"), (
            "only a bug has one; a handler's exception is tested with its code"
        )
    (received,) = long_ago().values()
    late = app.test_client().open(path, method=verb, headers={"X-Request-Id": "late", "X-Lightbox-Received": received})
    assert_error(late.status_code, late.headers, late.data, path, "deadline_exceeded", "late")
    assert late.headers["Retry-After"] == "1"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_reported_without_the_folder_and_its_free_bytes(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    error = as_lightbox_error(OSError(number, os.strerror(number)), "mine")
    assert (error.status, error.code) == (507, "no_room")
    assert error.message == "the server's temporary storage has no room for what the request had to write"
    assert f"TMPDIR: {temporary_folder()} has " in caplog.text, "for the operator alone"
    assert as_lightbox_error(OSError(errno.EIO, "x"), "mine").status == 500


def test_without_descriptors_callers_are_asked_to_come_again() -> None:
    error = as_lightbox_error(OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "mine")
    assert (error.status, error.code) == (503, "unavailable")


def test_every_route_of_the_app_is_walked() -> None:
    transport = mean_server()
    rules = {rule.rule for rule in fake_app(transport, {"mean": ModelOptions()}).url_map.iter_rules()}
    filled = {
        re.sub(r"<(?:int:)?version>", "1", rule.rstrip("/").replace("<model>", "mean").replace("<name>", "any"))
        for rule in rules
    }
    twins = {f"/v2/models/mean/versions/1{what}" for what in ("", "/ready", "/config", "/stats")}
    assert filled - twins == {path for _, path in ROUTES}


@each("path", ["/endpoints/any/invocations", "/endpoints/any/nothing", "/invocations", "/nowhere"])
def test_routes_and_methods_that_are_not_there_are_no_model_errors(path: str) -> None:
    client = fake_app(FakeTransport(), {"mean": ModelOptions()}).test_client()
    answer = client.get(path, headers={"X-Request-Id": "mine"})
    code = "method_not_allowed" if path.endswith("invocations") else "route_not_found"
    assert_error(answer.status_code, answer.headers, answer.data, path, code, "mine")
    assert answer.headers.get("Allow") == ("POST" if code == "method_not_allowed" else None)


def test_a_response_without_a_framework_is_whole() -> None:
    assert http_bytes(404, [("A", "b")], b"{}") == b"HTTP/1.1 404 Not Found\r\nA: b\r\nConnection: close\r\n\r\n{}"


def test_on_the_endpoint_route_a_refusal_is_a_model_error() -> None:
    app = fake_app(FakeTransport(), {"mean": ModelOptions()})
    status, headers, body = call(app.wsgi_app, PATH_INFO="/endpoints/any/invocations", **long_ago())
    assert_error(int(status[:3]), headers, body, "/endpoints/any/invocations", "deadline_exceeded")
    assert headers["Retry-After"] == "1"
