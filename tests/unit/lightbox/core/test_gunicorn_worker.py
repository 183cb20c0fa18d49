"""A worker thread stays with a busy connection and leaves it when other connections wait for a thread."""

from __future__ import annotations

import http.client
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http.errors import InvalidHeader, InvalidRequestLine
from gunicorn.workers.gthread import TConn

from lightbox.base.error_bodies import give_model_errors
from lightbox.base.request_context import RequestContext, Requests
from lightbox.core import gunicorn_worker
from lightbox.core.edge import Edge
from lightbox.core.gunicorn_worker import LingeringWorker
from lightbox.core.shares import Shares
from lightbox.features.sagemaker import SageMaker
from support.descriptors import few_descriptors
from support.error_shape import assert_error
from support.patience import PATIENCE

THREADS = 2
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch) -> Iterator[LingeringWorker]:
    monkeypatch.setattr(gunicorn_worker, "LINGER_MS", 1000 * PATIENCE)
    config = Config()
    config.set("threads", THREADS)
    config.set("keepalive", 75)
    made = LingeringWorker(0, os.getpid(), [], None, 30, config, Logger(config))
    made.wsgi = _app
    made.alive = True
    made.nr_conns = 1
    yield made
    made.tmp.close()


def _app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def _connection(made: LingeringWorker, ours: socket.socket) -> TConn:
    connection = TConn(made.cfg, ours, ("", 0), "")
    connection.data_ready = True
    return connection


def _ask(theirs: socket.socket) -> None:
    theirs.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b"\r\n\r\nok"):
        answer += theirs.recv(4096)
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_one_call_answers_the_requests_of_a_busy_connection(lingering: LingeringWorker) -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE)
    with ours, theirs:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(lingering.handle(_connection(lingering, ours))))
        thread.start()
        for _ in range(5):
            _ask(theirs)
        assert thread.is_alive()
        theirs.shutdown(socket.SHUT_WR)
        thread.join(PATIENCE)
        assert results == [False]  # the client has closed the connection


@pytest.mark.parametrize(("others", "stopping", "ends"), [(0, True, True), (1, True, False), (0, False, False)])
def test_a_stop_waits_for_no_request_that_was_answered(
    lingering: LingeringWorker, monkeypatch: pytest.MonkeyPatch, others: int, stopping: bool, ends: bool
) -> None:
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    edge = Edge(_app, Shares(THREADS), PATIENCE, requests=Requests(2 * PATIENCE))
    lingering.wsgi = SimpleNamespace(wsgi_app=edge)
    lingering.alive = not stopping
    lingering.nr_conns = 1 + others
    with (
        edge.requests.progress("late", RequestContext(PATIENCE, waited=3 * PATIENCE)),
        edge.requests.progress("other", RequestContext(PATIENCE, waited=PATIENCE)),
    ):
        lingering.notify()
    assert exits == ([0] if ends else [])


def test_a_worker_without_descriptors_leaves_a_connection_to_others_for_a_while(lingering: LingeringWorker) -> None:
    lingering.poller = selectors.DefaultSelector()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        lingering.sockets = [listener]
        lingering.set_accept_enabled(True)
        assert lingering.poller.select(PATIENCE)
        with few_descriptors():
            lingering.accept(listener)
        assert not lingering.poller.get_map()
        lingering.set_accept_enabled(True)
        assert not lingering.poller.get_map()
        lingering._accepts_from = 0  # the pause is over
        lingering.set_accept_enabled(True)
        assert lingering.poller.select(PATIENCE)


def _no_waiting(connection: Any) -> bool:
    raise AssertionError("the thread waited, and others needed it")


@pytest.mark.parametrize("reason", ["more connections than threads", "the worker stops"])
def test_the_thread_is_given_back(lingering: LingeringWorker, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr(gunicorn_worker, "_next_request_arrived", _no_waiting)
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE)
    with ours, theirs:
        if reason == "the worker stops":
            monkeypatch.setattr(lingering, "wsgi", _stopping(lingering))
        else:
            lingering.nr_conns = THREADS + 1
        theirs.sendall(REQUEST)
        assert lingering.handle(_connection(lingering, ours)) is True


def _stopping(made: LingeringWorker) -> Callable[..., list[bytes]]:
    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        made.alive = False
        return _app(environ, start_response)

    return app


def test_resting_connections_need_no_thread(lingering: LingeringWorker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lingering.nr_conns = THREADS + 2
        lingering.keepalived_conns.append(object())
        lingering.pending_conns.append(object())
        assert lingering._threads_are_enough()
        lingering.nr_conns += 1
        assert not lingering._threads_are_enough()


@pytest.mark.parametrize(
    ("failure", "path", "code"),
    [
        (InvalidHeader("A"), "/invocations", "bad_request"),
        (RuntimeError("secret"), "/invocations", "internal"),
        (RuntimeError("secret"), "/endpoints/any/invocations", "internal"),
    ],
)
def test_what_fails_outside_of_the_app_is_answered_in_the_one_form(
    lingering: LingeringWorker, failure: Exception, path: str, code: str
) -> None:
    give_model_errors(SageMaker.model_errors)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = SimpleNamespace(headers=[("X-AMZN-REQUESTID", "mine")], path=path)
        lingering.handle_error(request, ours, ("", 0), failure)
        response = http.client.HTTPResponse(theirs)
        ours.close()
        response.begin()
        body = response.read()
    assert "secret" not in assert_error(response.status, response.headers, body, path, code, "mine")


def test_a_request_without_a_head_is_answered_too(lingering: LingeringWorker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lingering.handle_error(None, ours, ("", 0), InvalidRequestLine("x"))
        ours.close()
        response = http.client.HTTPResponse(theirs)
        response.begin()
        assert_error(response.status, response.headers, response.read(), "", "bad_request")


def test_a_worker_that_loads_its_app_gives_signs_of_life(lingering: LingeringWorker) -> None:
    del lingering.wsgi
    lingering.alive = False
    lingering.notify()
    assert lingering.tmp.last_update() > 0
