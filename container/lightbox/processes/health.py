"""Readiness: what ``/ping`` answers.

It is answered here, beside the processes that it speaks of, not by a gunicorn worker: it is right at
once when the model server dies, and is never held up by requests in progress.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from email.parser import Parser
from typing import Any

import orjson

from lightbox.errors import LightboxError, MethodNotAllowed, Unavailable
from lightbox.plan import ModelServerAddress
from lightbox.processes import body_account
from lightbox.processes.metrics_page import MetricsPage
from lightbox.processes.model_states import get, model_states
from lightbox.protocols.edge import choose_request_id, error_response, http_bytes
from lightbox.telemetry.exposition import CONTENT_TYPE

POLL_SECONDS = 0.25
STALE_SECONDS = 10.0
"""A busy model server may answer its status late; for so long its last word counts."""

LIVE_PATH, READY_PATH = "/v2/health/live", "/v2/health/ready"
_READY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_ROOM = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
_NO_ROOM = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_METRICS_REQUESTS = (b"GET /metrics ", b"GET /metrics?")


class ServerWatch:
    """Follows one model server: whether the default model is AVAILABLE in it.

    Without a default model, in multi-model mode, a server that answers is enough.
    """

    def __init__(self, model: str | None, address: ModelServerAddress) -> None:
        self._model = model
        self._address = address
        self._available_until = 0.0
        self.problem = "the model server is starting"

    @property
    def available(self) -> bool:
        """Whether requests can be served."""
        return time.monotonic() < self._available_until

    def lost(self, problem: str) -> None:
        """Note that requests cannot be served."""
        self._available_until = 0.0
        self.problem = problem

    async def follow(self) -> None:
        """Ask the model server for the model's state for ever."""
        while True:
            await self._ask()
            await asyncio.sleep(POLL_SECONDS)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(STALE_SECONDS):
                states = await model_states(self._address.rest_port, self._model or "none")
        except TimeoutError:
            return
        except (OSError, ValueError):
            self.lost("the model server does not answer yet")
            return
        if self._model is None or "AVAILABLE" in states:
            self._available_until = time.monotonic() + STALE_SECONDS
        else:
            self.lost(f"the model {self._model!r} is {', '.join(states) or 'not known'} in the model server")


class Health:
    """Knows whether requests can be served; answers /ping with 200 or 503, and /metrics if there is such a page."""

    def __init__(self, model: str | None, addresses: Sequence[ModelServerAddress], sidecar: str) -> None:
        self.metrics: MetricsPage | None = None
        self.bodies: body_account.BodyAccount | None = None
        self.servers = [ServerWatch(model, address) for address in addresses]
        self._model = model
        self._sidecar = sidecar
        self._probe_problem: str | None = "the model has not been tried yet"
        self._front_port: int | None = None
        self._front_problem: str | None = None
        self.draining = False

    def expect_front(self, port: int) -> None:
        """Take the gRPC front into account, which listens on a port of its own."""
        self._front_port = port
        self._front_problem = "the gRPC front is starting"

    def front_ended(self) -> None:
        """Note that the gRPC front is gone."""
        self._front_problem = "the gRPC front has ended and is started again"

    def sidecar_ended(self) -> None:
        """Note that gunicorn is gone: the next one is tried before it is trusted."""
        self._probe_problem = "the sidecar has ended and is started again"

    def problem(self) -> str | None:
        """Return why requests cannot be served now, or None when they can."""
        if self.draining:
            return "stopping"
        if not any(server.available for server in self.servers):
            return self.servers[0].problem
        return self._probe_problem or self._front_problem

    async def follow(self) -> None:
        """Follow gunicorn, the gRPC front and every model server for ever."""
        servers = (server.follow() for server in self.servers)
        await asyncio.gather(self._follow_sidecar(), self._follow_front(), *servers)

    async def _follow_front(self) -> None:
        """See when the gRPC front listens, once after each of its starts."""
        while True:
            if self._front_problem is not None:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self._front_port)
                    writer.close()
                    self._front_problem = None
            await asyncio.sleep(POLL_SECONDS)

    async def _follow_sidecar(self) -> None:
        """Have the sidecar try the default model, once after each start of either."""
        while True:
            if not any(server.available for server in self.servers):
                self._probe_problem = "the model has not been tried since its server started"
            elif self._probe_problem is not None:
                self._probe_problem = await self._probe()
            await asyncio.sleep(POLL_SECONDS)

    async def _probe(self) -> str | None:
        """Return why the sidecar cannot get an answer of the default model, None when it can."""
        path = "/internal/probe" if self._model is not None else "/internal/none"
        try:
            status, body = await get(self._sidecar, path)
        except (OSError, ValueError):
            return "the sidecar is starting"
        if self._model is None or status == 200:
            return None
        return f"the model {self._model!r} does not answer: {body.decode(errors='replace')[:200]}"

    async def serve(self, address: str) -> asyncio.Server:
        """Listen at ``unix:/path`` or ``host:port``; answer LIVE_PATH, READY_PATH, /metrics, and all else as /ping.

        nginx alone gets answers about room for bodies: it lets no such path in.
        """
        if address.startswith("unix:"):
            return await asyncio.start_unix_server(self._answer, address.removeprefix("unix:"))
        host, _, port = address.rpartition(":")
        return await asyncio.start_server(self._answer, host, int(port))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            if self.bodies and head.startswith(body_account.PATH):
                writer.write(_ROOM if self.bodies.answers(head.split(b" ", 2)[1].decode()) else _NO_ROOM)
            elif self.metrics and head.startswith(_METRICS_REQUESTS):
                writer.write(_page(await self.metrics.render(self.problem() is None)))
            else:
                writer.write(self._reply(head.decode("latin-1")))
            await writer.drain()
        writer.close()

    def _reply(self, head: str) -> bytes:
        method, target = head.split(" ", 2)[:2]
        path = target.partition("?")[0]
        if path in (LIVE_PATH, READY_PATH) and method not in ("GET", "HEAD"):
            return _failed(MethodNotAllowed(f"{path} takes GET, got {method}", ["GET"]), head)
        if path == LIVE_PATH:
            return _good({"live": True})
        problem = self.problem()
        states = {"live": True, "ready": problem is None} if path == READY_PATH else {}
        if problem is None:
            return _good(states) if states else _READY
        return _failed(Unavailable(f"not ready: {problem}"), head, **states)


def _page(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"{head}\r\n\r\n".encode() + body


def _good(value: dict[str, Any]) -> bytes:
    body = orjson.dumps(value)
    return http_bytes(200, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))], body)


def _failed(error: LightboxError, head: str, **more: Any) -> bytes:
    sent = Parser().parsestr(head.partition("\r\n")[2], headersonly=True)
    return http_bytes(*error_response(error, choose_request_id(sent.get), **more))
