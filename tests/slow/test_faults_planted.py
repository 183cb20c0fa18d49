"""Callers, history and checker find what a proxy before a stack does wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from benchmark.servers import Address
from faults.callers import PING, Caller, Watch
from faults.checker import SILENT_SECONDS, Kind, check
from faults.client import Client, Request
from faults.good import invocation, learn
from faults.history import History, lines
from lightbox.tools.harness.http_client import Client as Connection
from lightbox.tools.harness.http_client import Response
from support.http_server import QuietHandler, serving
from support.patience import PATIENCE, poll
from support.stack import Stack

REQUESTS = [invocation(f"of {number}", "half_plus_two", b"%d\n" % number, "text/csv", "") for number in (1, 2)]
LIMIT = 2.0
EACH = 5
"""The proxy spoils each fifth answer."""


@dataclass
class Proxy:
    """The memory of a proxy; ``held`` says that it holds a request, ``open`` lets them go."""

    earlier: Response | None = None
    held: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)


Spoil = Callable[[Proxy, Response], Response | None]
"""Returns what is sent in place of a response; None ends the connection."""


def repeat(proxy: Proxy, response: Response) -> Response:
    assert proxy.earlier is not None
    return proxy.earlier


def delay(proxy: Proxy, response: Response) -> Response:
    time.sleep(LIMIT)
    return response


def hold(proxy: Proxy, response: Response) -> Response:
    proxy.held.set()
    assert proxy.open.wait(PATIENCE)
    return response


PLANTED: dict[str, tuple[Spoil, Kind]] = {
    "drops": (lambda proxy, response: None, Kind.LOST),
    "cuts": (lambda proxy, response: replace(response, body=response.body[:5]), Kind.LOST),
    "shortens": (lambda proxy, response: _with(response, body=response.body[: len(response.body) // 2]), Kind.WRONG),
    "repeats": (repeat, Kind.WRONG),
    "changes": (lambda proxy, response: _with(response, body=response.body.replace(b".", b"1.")), Kind.WRONG),
    "names another request": (lambda proxy, response: _with(response, X_Amzn_RequestId="7000"), Kind.WRONG),
    "refuses": (lambda proxy, response: _with(response, status=404), Kind.WRONG),
    "fails": (lambda proxy, response: _with(response, status=500), Kind.BARE),
    "is overloaded": (lambda proxy, response: _with(response, status=503), Kind.BARE),
    "delays": (delay, Kind.LATE),
    "lies": (hold, Kind.LIE),
}


def _with(response: Response, status: int = 200, body: bytes | None = None, **headers: str) -> Response:
    """Return a whole response with another status, body or header."""
    changed = replace(response, status=status, body=response.body if body is None else body)
    for name, value in ({"Content-Length": str(len(changed.body))} | headers).items():
        del changed.headers[name.replace("_", "-")]
        changed.headers[name.replace("_", "-")] = value
    return changed


def proxy_handler(stack: Stack, proxy: Proxy, spoil: Spoil) -> type[QuietHandler]:
    """Return what passes requests on to a stack and spoils some responses."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with Connection(stack.port, PATIENCE) as connection:
                response = connection.send(self.command, self.path, body, dict(self.headers))
            number = int(self.headers["X-Request-Id"])
            sent = spoil(proxy, response) if number % EACH == EACH - 1 and self.command == "POST" else response
            proxy.earlier = response
            if sent is None:
                self.close_connection = True
                return
            self.send_response_only(sent.status)
            for name, value in sent.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent.body)
            self.close_connection = len(sent.body) < int(sent.headers["Content-Length"])

    return Handler


@pytest.mark.parametrize("planted", PLANTED)
def test_what_a_proxy_does_wrong_is_found(planted: str, golden_stack: Stack, tmp_path: Path) -> None:
    (spoil, kind), watch, proxy = PLANTED[planted], Watch(), Proxy()
    with closing(History(path := tmp_path / "history.jsonl", watch.take)) as history:
        known = learn(Address(golden_stack.port), REQUESTS, history)
        limit = LIMIT if kind is Kind.LATE else PATIENCE
        with serving(proxy_handler(golden_stack, proxy, spoil)) as url, ThreadPoolExecutor(1) as pool:
            client = Client(Address(urlsplit(url).port or 0), keep=True)
            caller = Caller(client, history, watch, Random(0), threading.Event(), 0.0)
            sending = pool.submit(send_all, caller, [replace(request, limit=limit) for request in known])
            if kind is Kind.LIE:
                ping_while_held(replace(caller, client=Client(client.address)), proxy)
            sending.result()
        history.note(end=0, left=[])
    found = [finding.kind for finding in check(lines(path)).findings]
    assert set(found) == {kind}, found


def send_all(caller: Caller, known: list[Request]) -> None:
    """Send three requests that the proxy spoils, and others between them."""
    with closing(caller.client):
        for number in range(3 * EACH):
            caller.send(known[number % len(known)])


def ping_while_held(caller: Caller, proxy: Proxy) -> None:
    """Send /ping while the proxy holds a request, for longer than that may last."""
    assert proxy.held.wait(PATIENCE)
    began = time.monotonic()
    for _ in poll(pause=0.5):
        caller.send(PING)
        if time.monotonic() - began > SILENT_SECONDS + 1:
            break
    proxy.open.set()
