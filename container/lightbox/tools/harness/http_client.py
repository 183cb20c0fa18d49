"""HTTP requests to servers on this machine."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from typing_extensions import override


@dataclass(frozen=True)
class Response:
    """A whole response; ``headers`` are looked up whatever their case."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Client(AbstractContextManager["Client"]):
    """One connection to a port of the loopback interface, kept alive between requests. Use as a context manager."""

    def __init__(self, port: int, timeout: float = 60.0) -> None:
        """``timeout`` is how many seconds a response may pause."""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    @override
    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request and read its whole response. Raises OSError and http.client.HTTPException."""
        self._connection.request(method, path, body, dict(headers or {}))
        response = self._connection.getresponse()
        return Response(response.status, response.headers, response.read())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def status_of(port: int, path: str, method: str = "GET", seconds: float = 5.0) -> int | None:
    """Return the status that a server answers, None when it does not in ``seconds``."""
    with Client(port, timeout=seconds) as client:
        try:
            return client.send(method, path).status
        except (OSError, http.client.HTTPException):
            return None
