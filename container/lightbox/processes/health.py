"""Readiness: what ``/ping`` answers.

It is answered here, beside the processes that it speaks of, not by a gunicorn worker: it is right at
once when the model server dies, and is never held up by requests in progress.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path

from lightbox.plan import ModelServerAddress

POLL_SECONDS = 0.25
STALE_SECONDS = 10.0
"""A busy model server may answer its status late; for so long its last word counts."""

_READY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Health:
    """Follows the state of the default model and answers GET /ping with 200 or 503."""

    def __init__(self, model: str, address: ModelServerAddress, sidecar: str) -> None:
        self._model = model
        self._address = address
        self._sidecar = sidecar
        self._available_until = 0.0
        self._reason = "the model server is starting"
        self.draining = False
        self.sidecar_listens = False

    @property
    def model_available(self) -> bool:
        """Whether the default model is AVAILABLE in the model server."""
        return time.monotonic() < self._available_until

    def problem(self) -> str | None:
        """Return why requests cannot be served now, or None when they can."""
        if self.draining:
            return "stopping"
        if not self.sidecar_listens:
            return "the sidecar is starting"
        return None if self.model_available else self._reason

    def lost(self, reason: str) -> None:
        """Note that the default model cannot be used."""
        self._available_until = 0.0
        self._reason = reason

    async def follow(self) -> None:
        """Ask the model server for the model's state for ever."""
        while True:
            await self._ask()
            await asyncio.sleep(POLL_SECONDS)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(STALE_SECONDS):
                states = await _model_states(self._address.rest_port, self._model)
                if not self.sidecar_listens:
                    await _reach(self._sidecar)
                    self.sidecar_listens = True
        except TimeoutError:
            return
        except (OSError, ValueError):
            self.lost(f"the model server does not serve the model {self._model!r} yet")
            return
        if "AVAILABLE" in states:
            self._available_until = time.monotonic() + STALE_SECONDS
        else:
            self.lost(f"the model {self._model!r} is {', '.join(states) or 'not known'} in the model server")

    async def serve(self, address: str) -> asyncio.Server:
        """Listen at ``unix:/path`` or ``host:port`` and answer every request as /ping."""
        if address.startswith("unix:"):
            return await asyncio.start_unix_server(self._answer, address.removeprefix("unix:"))
        host, _, port = address.rpartition(":")
        return await asyncio.start_server(self._answer, host, int(port))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await reader.readuntil(b"\r\n\r\n")
            problem = self.problem()
            writer.write(_READY if problem is None else _not_ready(problem))
            await writer.drain()
        writer.close()


def _not_ready(problem: str) -> bytes:
    body = json.dumps({"error": f"not ready: {problem}", "code": "unavailable"}).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def _model_states(port: int, model: str) -> list[str]:
    """Return the states of a model's versions; raise OSError or ValueError when there is no such answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET /v1/models/{model} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        _, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    answer = json.loads(body)
    return [str(status["state"]) for status in answer.get("model_version_status", [])]


async def _reach(sidecar: str) -> None:
    """Raise OSError when gunicorn does not listen."""
    if sidecar.startswith("unix:"):
        _, writer = await asyncio.open_unix_connection(Path(sidecar.removeprefix("unix:")))
    else:
        host, _, port = sidecar.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
