"""One HTTP request and what became of it, told apart as finely as a client can see it."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

ANSWER_SECONDS = 300.0
"""Longer than the server's own deadline: a request that nobody answers for so long is lost."""

NGINX = ("nginx master", "nginx worker")
"""The kinds of process that hold an HTTP request's connection."""

Check = Callable[[bytes], str]
"""Returns what is wrong with the body of a 200, "" when nothing is."""


class Fate(StrEnum):
    """What a client sees of one request."""

    ANSWERED = "answered"
    NOT_CONNECTED = "not connected"
    UNSENT = "not sent"
    CUT = "connection ended before the answer was whole"
    SILENT = "no answer in time"


@dataclass(frozen=True)
class Request:
    """What is sent: POST unless ``method`` says otherwise."""

    name: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    method: str = "POST"


@dataclass(frozen=True)
class Outcome:
    """A request's fate; ``started`` and ``ended`` are on the monotonic clock.

    ``reused`` tells that it was sent over a connection that was open already, and may meet its end; so may a call over
    a kept channel of gRPC, and a frame of a stream that is told to open again. ``held_by`` are the kinds of process
    whose death ends that connection.
    """

    name: str
    fate: Fate
    reused: bool
    started: float
    ended: float
    status: int = 0
    retry_after: bool = False
    body: bytes = b""
    detail: str = ""
    held_by: tuple[str, ...] = NGINX

    @property
    def accepted(self) -> bool:
        """Whether the whole request was sent over a connection that the server had taken."""
        return self.fate not in (Fate.NOT_CONNECTED, Fate.UNSENT)

    @property
    def refused(self) -> bool:
        """Whether the answer is 'try again': 503, or on boto3's route 424 around one, with Retry-After."""
        return self.retry_after and (
            self.status == 503 or (self.status == 424 and b'"OriginalStatusCode"' in self.body)
        )


class Caller:
    """A client with one connection, kept alive between requests if ``keep``."""

    def __init__(self, port: int, keep: bool) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
        self._keep = keep

    def send(self, request: Request) -> Outcome:
        """Send a request and read its whole answer; a broken connection is an outcome, not an error."""
        started = time.monotonic()
        reused = self._connection.sock is not None
        fate, status, retry_after, body, detail = self._try(request)
        if not self._keep or fate is not Fate.ANSWERED:
            self.close()
        return Outcome(request.name, fate, reused, started, time.monotonic(), status, retry_after, body, detail)

    def _try(self, request: Request) -> tuple[Fate, int, bool, bytes, str]:
        try:
            if self._connection.sock is None:
                self._connection.connect()
        except OSError as error:
            return Fate.NOT_CONNECTED, 0, False, b"", repr(error)
        sent = True
        try:
            self._connection.request(request.method, request.path, request.body, dict(request.headers))
        except OSError:
            sent = False  # there may be an answer all the same: a body that is too large is refused early
        try:
            answer = self._connection.getresponse()
            body = answer.read()
        except TimeoutError as error:
            return Fate.SILENT, 0, False, b"", repr(error)
        except (OSError, http.client.HTTPException) as error:
            return Fate.CUT if sent else Fate.UNSENT, 0, False, b"", repr(error)
        return Fate.ANSWERED, answer.status, answer.getheader("Retry-After") is not None, body, ""

    def close(self) -> None:
        """Close the connection; the next request makes a new one."""
        self._connection.close()
