"""Sends each frame to nginx as a request for a prediction: frames and requests share limits and responses."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson
import urllib3
from typing_extensions import override

from lightbox.base.error_bodies import error_body
from lightbox.base.errors import LightboxError, Unavailable
from lightbox.base.request_context import REQUEST_ID_HEADER
from lightbox.core.edge import MODEL_HEADER

_CONNECT_SECONDS = 5.0
_NOT_TAKEN = "try again: the frame was not taken, because nginx is starting or stopping"
_TIMING = re.compile(r"([\w-]+);dur=([\d.]+)")


@dataclass(frozen=True)
class FrameResponse:
    """The response to a frame's request."""

    status: int
    content_type: str
    server_timing: str
    body: bytes
    model: str = ""
    """The answering model: name/version."""

    def text(self, frame: int | None, dropped: int | None) -> str:
        """Return the text frame: a JSON object whose ``answer`` is the body, as JSON if it is JSON."""
        fields: dict[str, Any] = {"frame": frame, "status": self.status}
        if dropped is not None:
            fields["dropped"] = dropped
        if self.model:
            fields["model"] = self.model
        fields["timing"] = {name: float(value) for name, value in _TIMING.findall(self.server_timing)}
        fields["answer"] = self._value()
        return orjson.dumps(fields).decode()

    def _value(self) -> Any:
        if self.content_type.partition(";")[0].strip() == "application/json":
            try:
                orjson.loads(self.body)
                return orjson.Fragment(self.body)  # the same text as in the response to a request
            except orjson.JSONDecodeError:  # a handler's mistake
                pass
        return self.body.decode(errors="replace")


def failed(error: LightboxError, request_id: str) -> FrameResponse:
    """Return the response with an error."""
    return FrameResponse(error.status, "application/json", "", error_body(error, request_id))


class _UnixConnection(urllib3.connection.HTTPConnection):
    """A connection to a unix socket, for any host."""

    def __init__(self, *arguments: Any, path: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_CONNECT_SECONDS)
        self.sock.connect(self._path)


class _UnixPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _UnixConnection


class Relay:
    """Sends frames to nginx at ``unix:/path`` or ``host:port``; ``most`` at a time, others wait for a thread.

    ``route`` predicts with any body.
    """

    def __init__(self, address: str, route: str, most: int, read_seconds: float) -> None:
        self._route = route
        self._threads = ThreadPoolExecutor(most, "frame")
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=read_seconds)
        options: dict[str, Any] = {"maxsize": most, "timeout": timeout, "retries": False}
        host, _, port = address.rpartition(":")
        self._pool = (
            _UnixPool("localhost", path=port, **options)
            if host == "unix"
            else urllib3.HTTPConnectionPool(host, int(port), **options)
        )

    async def ask(self, frame: bytes, headers: Mapping[str, str], request_id: str) -> FrameResponse:
        """Return the response to a frame; raise Unavailable if nginx does not accept it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._post, frame, {**headers, REQUEST_ID_HEADER: request_id})

    def _post(self, frame: bytes, headers: Mapping[str, str]) -> FrameResponse:
        for last in (False, True):
            try:
                response = self._pool.urlopen("POST", self._route, body=frame, headers=headers)
                break
            except urllib3.exceptions.ProtocolError as error:  # most likely an idle connection that nginx has closed
                if last:
                    raise Unavailable(_NOT_TAKEN) from error
            except urllib3.exceptions.HTTPError as error:
                raise Unavailable(_NOT_TAKEN) from error
        received = response.headers
        return FrameResponse(
            response.status,
            received.get("Content-Type", ""),
            received.get("Server-Timing", ""),
            response.data,
            received.get(MODEL_HEADER, ""),
        )

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
