"""One request over HTTP, gRPC or WebSocket, and its outcome in full detail."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import grpc
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from benchmark.servers import Address
from lightbox.base.errors import STATUS_OF_CODE
from lightbox.features.open_inference.grpc.messages import INFERENCE_SERVICE

RESPONSE_SECONDS = 300.0
"""Longer than the server's own deadline: a request without an answer after this many seconds is lost."""
INFER, STREAM = f"/{INFERENCE_SERVICE}/ModelInfer", "/invocations-bidirectional-stream"
"""The paths of calls over gRPC, and of frames over a WebSocket; all others are HTTP's."""
NGINX, FRONT, WORKER = ("nginx master", "nginx worker"), "gRPC front", "stream worker"
"""The kinds of process that hold a connection of HTTP, of gRPC, and of a WebSocket beside nginx."""
_NEVER_SENT = ("failed to connect", "connections to all backends failing")
"""gRPC's words for a call that found no connection: it was not sent."""
_OPTIONS = [
    # One connection each, reopened soon after it ends, so that a caller waits only for the server.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
    ("grpc.enable_retries", 0),
]


class Fate(StrEnum):
    """The result of one request as its client sees it."""

    ANSWERED = "answered"
    NOT_CONNECTED = "not connected"
    UNSENT = "not sent"
    CUT = "connection ended before the answer was whole"
    SILENT = "no answer in time"


Check = Callable[[bytes], bool]
"""Whether the body of an answer is right; raises ValueError for an unreadable one."""


@dataclass(frozen=True)
class Request:
    """A request, POST by default, and its expected response.

    ``check`` validates the bodies of responses with status ``expected``; by default only the status counts. A gRPC call
    times out after ``seconds``.
    """

    name: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    method: str = "POST"
    expected: tuple[int, ...] = (200,)
    check: Check = lambda body: True
    seconds: float = RESPONSE_SECONDS


@dataclass
class Outcome:
    """The outcome of a request; ``started`` and ``ended`` are monotonic times.

    ``fate`` is the one that the end of the connection would mean now, until there is a response. ``refused`` means that
    the response asks for a retry. Without a response, ``body`` is what the client library reported.
    ``reused`` means that the connection was already open and can close just then; the same holds for a call over
    a kept gRPC channel and for a frame of a stream with a close code to reopen. ``held_by`` are the kinds of process
    whose death ends that connection.
    """

    request: Request
    fate: Fate = Fate.NOT_CONNECTED
    reused: bool = False
    started: float = 0.0
    ended: float = 0.0
    status: int = 0
    body: bytes = b""
    refused: bool = False
    held_by: tuple[str, ...] = NGINX

    def answer(self, status: int, body: bytes, refused: bool) -> None:
        """Record a whole response."""
        self.fate, self.status, self.body, self.refused = Fate.ANSWERED, status, body, refused


class Client:
    """A connection to nginx, one to the gRPC front and a stream for each path, kept between requests if ``keep``."""

    def __init__(self, address: Address, keep: bool = False) -> None:
        self.address = address
        self.keep = keep
        self._connection = http.client.HTTPConnection(address.host, address.port, timeout=RESPONSE_SECONDS)
        self._channel: Any = None
        self._streams: dict[str, ClientConnection] = {}

    def send(self, request: Request) -> Outcome:
        """Send a request and read the whole response; a broken connection is an outcome, not an error."""
        outcome = Outcome(request, started=time.monotonic())
        try:
            if request.path == INFER:
                self._call(outcome)
            elif request.path.startswith(STREAM):
                self._frame(outcome)
            else:
                self._exchange(outcome)
        except InvalidStatus as refusal:
            status, body = refusal.response.status_code, bytes(refusal.response.body or b"")
            outcome.answer(status, body, status == 503)
        except (OSError, http.client.HTTPException, ConnectionClosed, InvalidHandshake, EOFError) as error:
            outcome.fate = Fate.SILENT if isinstance(error, TimeoutError) else outcome.fate
            outcome.body = repr(error).encode()
        if not self.keep or outcome.fate is not Fate.ANSWERED:
            self.close()
        outcome.ended = time.monotonic()
        return outcome

    def close(self) -> None:
        """Close all connections; the next request opens a new one."""
        self._connection.close()
        for stream in self._streams.values():
            with suppress(ConnectionClosed, OSError):
                stream.close()
        self._streams.clear()
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def _exchange(self, outcome: Outcome) -> None:
        connection, request = self._connection, outcome.request
        outcome.reused = connection.sock is not None
        if not outcome.reused:
            connection.connect()
        outcome.fate = Fate.CUT
        try:
            connection.request(request.method, request.path, request.body, dict(request.headers))
        except OSError:
            outcome.fate = Fate.UNSENT  # a response can still be there: the server refuses a too large body early
        response = connection.getresponse()
        body = response.read()
        # boto3's route has 424 around a 503.
        is_refusal = response.status == 503 or (response.status == 424 and b'"OriginalStatusCode"' in body)
        outcome.answer(response.status, body, is_refusal and response.getheader("Retry-After") is not None)

    def _call(self, outcome: Outcome) -> None:
        request = outcome.request
        outcome.reused, outcome.held_by = self._channel is not None, (*NGINX, FRONT)
        self._channel = self._channel or grpc.insecure_channel(self.address.front, options=_OPTIONS)
        try:
            body = self._channel.unary_unary(INFER)(request.body, timeout=request.seconds)
            outcome.answer(200, body, refused=False)
        except grpc.RpcError as error:
            detail = f"{error.code().name}: {error.details()}"
            # The server's own errors name their code; all others are gRPC's reports about the connection.
            code = dict(error.trailing_metadata() or ()).get("lightbox-code")
            if code is None:
                outcome.fate = Fate.NOT_CONNECTED if any(words in detail for words in _NEVER_SENT) else Fate.CUT
                is_late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                raise (TimeoutError if is_late else ConnectionError)(detail) from None
            outcome.answer(STATUS_OF_CODE[code].http, detail.encode(), STATUS_OF_CODE[code].http == 503)

    def _frame(self, outcome: Outcome) -> None:
        path = outcome.request.path
        stream = self._streams.get(path)
        outcome.reused, outcome.held_by = stream is not None and stream.state is State.OPEN, (*NGINX, WORKER)
        if stream is None or not outcome.reused:
            address = f"ws://{self.address.host}:{self.address.port}{path}"
            stream = connect(address, compression=None, open_timeout=RESPONSE_SECONDS, close_timeout=1)
            self._streams[path] = stream
        outcome.fate = Fate.CUT
        try:
            stream.send(outcome.request.body)
            response: dict[str, Any] = json.loads(stream.recv(RESPONSE_SECONDS))
        except ConnectionClosed as closed:
            # The server answers accepted frames before such a close.
            if closed.rcvd is not None and closed.rcvd.code == CloseCode.SERVICE_RESTART:
                outcome.fate, outcome.reused = Fate.UNSENT, True
            raise
        outcome.answer(response["status"], json.dumps(response["answer"]).encode(), response["status"] == 503)
