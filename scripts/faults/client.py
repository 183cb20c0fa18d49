"""One request over HTTP, gRPC or WebSocket, and its outcome in full detail."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
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
from faults.answers import Form
from lightbox.base.errors import STATUS_OF_CODE
from lightbox.base.request_context import REQUEST_ID_HEADER
from lightbox.features.open_inference.grpc.messages import INFERENCE_SERVICE

RESPONSE_SECONDS = 300.0
"""Longer than the server's own deadlines: a request without an answer after this many seconds is lost."""
LIMIT_SECONDS = 45.0
"""The server's own deadline, 30 s, and the time that nginx has beyond it."""
INFER, STREAM = f"/{INFERENCE_SERVICE}/ModelInfer", "/invocations-bidirectional-stream"
"""The paths of calls over gRPC, and of frames over a WebSocket; all others are HTTP's."""
ID = "X-Request-Id"
_NEVER_SENT = ("failed to connect", "connections to all backends failing")
"""gRPC's words for a call that found no connection: it was not sent."""
_OPTIONS = [
    # One connection each, reopened soon after it ends, so that a caller waits only for the server.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
    ("grpc.enable_retries", 0),
]


class Via(StrEnum):
    """The way of a request; a fault can end the connections of a kind."""

    HTTP = "HTTP"
    SUPERVISOR = "supervisor"
    GRPC = "gRPC"
    STREAM = "stream"


class Fate(StrEnum):
    """The result of one request as its client sees it."""

    ANSWERED = "answered"
    NOT_CONNECTED = "not connected"
    UNSENT = "not sent"
    CUT = "connection ended before the answer was whole"
    SILENT = "no answer in time"


@dataclass(frozen=True)
class Request:
    """A request, POST by default, and its expected response.

    A 200 must be like the answer ``like`` of a server at rest; by default only the status counts. A client that hangs
    up expects one of ``ends``, too. A gRPC call times out after ``seconds``. An answer is late after ``limit`` seconds.
    """

    name: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    method: str = "POST"
    expected: tuple[int, ...] = (200,)
    like: str | None = None
    ends: tuple[Fate, ...] = ()
    seconds: float = RESPONSE_SECONDS
    limit: float = LIMIT_SECONDS

    @property
    def via(self) -> Via:
        """Its transport."""
        if self.method == "GET":
            return Via.SUPERVISOR
        return Via.GRPC if self.path == INFER else Via.STREAM if self.path.startswith(STREAM) else Via.HTTP

    @property
    def form(self) -> Form:
        """How its answer is read."""
        if self.path == INFER:
            return Form.MESSAGE
        return Form.FLOATS if "Inference-Header-Content-Length" in self.headers else Form.TEXT


@dataclass
class Outcome:
    """The outcome of a request.

    ``fate`` is the one that the end of the connection would mean now, until there is a response. ``retry`` means that
    the response asks for a retry, ``of`` is the number of the request that it names. Without a response, ``body`` is
    what the client library reported. ``reused`` means that the connection was already open and can close just then; the
    same holds for a call over a kept gRPC channel and for a frame of a stream with a close code to reopen.
    """

    request: Request
    number: int = 0
    fate: Fate = Fate.NOT_CONNECTED
    reused: bool = False
    status: int = 0
    body: bytes = b""
    retry: bool = False
    of: int | None = None

    def answer(self, status: int, body: bytes, retry: bool, of: str | None = None) -> None:
        """Record a whole response."""
        self.fate, self.status, self.body, self.retry = Fate.ANSWERED, status, body, retry
        self.of = int(of) if of and of.isdecimal() else None


class Client:
    """A connection to nginx, one to the gRPC front and a stream for each path, kept between requests if ``keep``."""

    def __init__(self, address: Address, keep: bool = False) -> None:
        self.address = address
        self.keep = keep
        self._connection = http.client.HTTPConnection(address.host, address.port, timeout=RESPONSE_SECONDS)
        self._channel: Any = None
        self._streams: dict[str, ClientConnection] = {}

    def send(self, request: Request, number: int = 0) -> Outcome:
        """Send a request and read the whole response; a broken connection is an outcome, not an error."""
        outcome = Outcome(request, number)
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
            connection.request(request.method, request.path, request.body, {ID: str(outcome.number), **request.headers})
        except OSError:
            outcome.fate = Fate.UNSENT  # a response can still be there: the server refuses a too large body early
        response = connection.getresponse()
        body = response.read()
        # boto3's route has 424 around a 503.
        is_refusal = response.status == 503 or (response.status == 424 and b'"OriginalStatusCode":503' in body)
        retry = is_refusal and response.getheader("Retry-After") is not None
        outcome.answer(response.status, body, retry, response.getheader(REQUEST_ID_HEADER))

    def _call(self, outcome: Outcome) -> None:
        request = outcome.request
        outcome.reused = self._channel is not None
        self._channel = self._channel or grpc.insecure_channel(self.address.front, options=_OPTIONS)
        try:
            ids = [(ID.lower(), str(outcome.number))]
            body, call = self._channel.unary_unary(INFER).with_call(request.body, request.seconds, ids)
            trailers = dict(call.trailing_metadata() or ())
            outcome.answer(200, body, retry=False, of=trailers.get(REQUEST_ID_HEADER.lower()))
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
        outcome.reused = stream is not None and stream.state is State.OPEN
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
