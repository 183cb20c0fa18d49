"""The supervisor's HTTP server: /ping, the features' probes, /metrics, and nginx's own requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson

from lightbox.base.error_bodies import Headers, error_response, http_bytes
from lightbox.base.errors import LightboxError, MethodNotAllowed, Starting, Stopping, Unavailable
from lightbox.base.machine.local_sockets import QUEUE, listen
from lightbox.base.plain_http import headers_of
from lightbox.base.request_context import choose_request_id
from lightbox.base.telemetry.saturation import SATURATION_HEADER, Saturation
from lightbox.core.additions import Probe
from lightbox.nginx import body_memory, refusals
from lightbox.supervisor.watching.metrics_page import CONTENT_TYPE, MetricsPage
from lightbox.supervisor.watching.readiness import STOPPING, Health

LAST_SECONDS = 5.0
"""Seconds that nginx has to read a refusal."""
_HEAD_BYTES = 1 << 19
"""Larger than nginx's limit of a caller's headers."""
_METRICS_REQUESTS = (b"GET /metrics ", b"GET /metrics?")


class HealthServer:
    """Answers /ping and ``probes`` with 200 or 503, and /metrics if there is a page.

    ``admit`` and ``refuse`` answer nginx's requests, by path and headers.
    """

    def __init__(
        self,
        health: Health,
        saturation: Saturation,
        admit: Callable[[str, Mapping[str, str]], Awaitable[bytes]],
        refuse: Callable[[str, Mapping[str, str]], bytes],
        probes: Mapping[str, Probe],
        metrics: MetricsPage | None = None,
    ) -> None:
        self._health = health
        self._saturation = saturation
        self._admit = admit
        self._refuse = refuse
        self._probes = probes
        self._metrics = metrics

    async def serve(self, address: str) -> asyncio.Server:
        """Listen at ``unix:/path`` or ``host:port``; answer the probes, /metrics, and every other path as /ping.

        Only nginx gets admissions and refusals; it does not forward such paths.
        """
        return await asyncio.start_server(self._answer, sock=listen(address), limit=_HEAD_BYTES, backlog=QUEUE)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.decode("latin-1").split(" ", 2)[1]
            if target.startswith(body_memory.ROOM):
                writer.write(await self._admit(target, headers_of(head)))
            elif target.startswith(refusals.PATH):
                writer.write(self._refuse(target, headers_of(head)))
                await _drain(reader, writer)
            elif self._metrics and head.startswith(_METRICS_REQUESTS):
                page = await self._metrics.render(self._health.problem() is None, self._saturation)
                writer.write(_good(page, content_type=CONTENT_TYPE))
            else:
                writer.write(self._response(head))
            await writer.drain()
        writer.close()

    def _response(self, head: bytes) -> bytes:
        method, target = head.decode("latin-1").split(" ", 2)[:2]
        path = target.partition("?")[0]
        problem = self._health.problem()
        if probe := self._probes.get(path):
            if method not in ("GET", "HEAD"):
                return _failed(MethodNotAllowed(f"{path} takes GET, got {method}", ["GET"]), head, [])
            states = probe(problem is None)
            if problem is None or all(states.values()):
                return _good(orjson.dumps(states))
            return _failed(_not_ready(problem), head, [], **states)
        saturation = (SATURATION_HEADER, f"{self._saturation.value:.3f}")
        return _good(b"", saturation) if problem is None else _failed(_not_ready(problem), head, [saturation])


async def _drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the rest of a caller's body until nginx has read the answer, which it would lose on a closed connection."""
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_SECONDS):
            while await reader.read(1 << 16):
                pass


def _good(body: bytes, *headers: tuple[str, str], content_type: str = "application/json") -> bytes:
    return http_bytes(200, [("Content-Type", content_type), ("Content-Length", str(len(body))), *headers], body)


def _not_ready(problem: str) -> Unavailable:
    return (Stopping if problem == STOPPING else Starting)(f"not ready: {problem}")


def _failed(error: LightboxError, head: bytes, more_headers: Headers, **more: Any) -> bytes:
    sent = headers_of(head)
    status, headers, body = error_response(error, choose_request_id(lambda name: sent.get(name.lower())), **more)
    return http_bytes(status, headers + more_headers, body)
