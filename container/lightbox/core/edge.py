"""The edge of the service: every request enters here and every response leaves here, on all routes.

``Edge`` is WSGI middleware around Flask. It admits requests, gives each an id, a deadline and a context, turns
exceptions into error responses, logs our own failures and reports the finished request. ``error_bodies`` defines the
form of errors.
"""

from __future__ import annotations

import errno
import logging
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from lightbox.base.error_bodies import Headers, error_response, has_model_errors, status_line
from lightbox.base.errors import (
    ClientDisconnected,
    HandlerFailed,
    LightboxError,
    QueueFull,
    QueueTimeout,
    RateLimited,
    Unavailable,
)
from lightbox.base.machine.temporary_storage import is_full, storage_full
from lightbox.base.request_context import (
    REQUEST_ID_HEADER,
    Header,
    MakeContext,
    RequestContext,
    Requests,
    Turn,
    choose_request_id,
    is_batch,
    key_of,
)
from lightbox.base.telemetry.logs import UNMATCHED, FinishedRequest, Observer, OfRequest
from lightbox.core.shares import Shares
from lightbox.model_runtime.wire.status import LACKS

log = logging.getLogger("lightbox")

RECEIVED_HEADER = "HTTP_X_LIGHTBOX_RECEIVED"
"""Time at which nginx had received the whole request, in seconds since the epoch. nginx overwrites a caller's own."""
_LONGEST_WAIT = 1800.0
"""Seconds beyond the deadline, by default half an hour after nginx gives up: if more have passed, the clock was set."""
MODEL_HEADER = "X-Lightbox-Model"
"""The model that answered a prediction, as name/version."""
SERVER_TIMING = "Server-Timing"
"""https://www.w3.org/TR/server-timing/"""
EXCHANGE = "lightbox.exchange"
"""Key of the request's Exchange in the WSGI environ."""

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]
_PACKAGE = Path(__file__).resolve().parents[1]
_PIECE = 1 << 18

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
ModelOf = Callable[[dict[str, Any]], str]
Work = Callable[[bytes, Header, RequestContext], bytes]
"""Answers a serialized gRPC message; its second argument looks up the caller's headers. Raises LightboxError."""


@lru_cache(maxsize=256)
def _variable(header: str) -> str:
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


def header_of(environ: Mapping[str, Any]) -> Header:
    """Return a function that looks up the headers of a WSGI request."""
    return lambda name: environ.get(_variable(name))


def as_lightbox_error(error: Exception, request_id: str) -> LightboxError:
    """Return the error for the caller. Log it unless the caller caused it; bugs are logged with their traceback.

    An unreachable model server, a passed deadline and a want of descriptors are no bugs.
    """
    ours: LightboxError
    if isinstance(error, LightboxError):
        ours = error
    elif is_full(error):
        ours = storage_full("what the request had to write")
    elif isinstance(error, OSError) and error.errno in LACKS:
        lacks = "memory" if error.errno == errno.ENOMEM else "file descriptors"
        ours = Unavailable(f"the server has no {lacks} for the request")
    else:
        ours = LightboxError(f"internal error: {type(error).__name__}")
    if ours.status >= 500:
        said = f"{ours.message} ({ours.detail})" if ours.detail else ours.message
        is_users = isinstance(ours, HandlerFailed)
        log.error(
            "request %s: %s",
            request_id,
            said,
            exc_info=_shown(error) if ours.status == 500 else None,
            extra={"request_id": request_id, **({"of_others": True} if is_users else {})},
        )
    _drop_tracebacks(error)
    return ours


def _shown(error: Exception) -> _ExcInfo | None:
    """Return what the log has of an error: of a handler's the frames of the user's code, all with the level debug."""
    cause = error.__cause__
    if not isinstance(error, HandlerFailed) or log.isEnabledFor(logging.DEBUG):
        return type(error), error, error.__traceback__
    if cause is None:  # the message says what the handler has returned
        return None
    own = cause.__traceback__
    while own is not None and Path(own.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
        own = own.tb_next
    return type(cause), cause, own


def _drop_tracebacks(error: BaseException | None) -> None:
    """Remove the tracebacks from an error and from its causes.

    Frames keep their local variables, such as the body, and some frames, such as Flask's, keep the error. This cycle
    would hold the memory of each failed request until the garbage collector runs.
    """
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__context__


class Edge:
    """Admits requests in the turns of ``shares``; the others wait, each until its deadline.

    nginx bounds the number of waiting requests of all workers. A waiting request takes almost no resources: Flask has
    not seen it yet. ``observers`` receive every response; ``make_context`` makes a request's context; ``requests`` are
    the requests of this process. ``model_of`` returns the model that a request names, "" for no known one; without it
    all requests have the same share.
    """

    def __init__(
        self,
        app: WsgiApp,
        shares: Shares,
        deadline_seconds: float,
        observers: Sequence[Observer] = (),
        make_context: MakeContext | None = None,
        requests: Requests | None = None,
        model_of: ModelOf | None = None,
    ) -> None:
        self.requests = requests or Requests()
        self._app = app
        self._shares = shares
        self._model_of = model_of
        self._deadline_seconds = deadline_seconds
        self._observers = observers
        self._make_context = make_context or (lambda allowed, header, waited: RequestContext(allowed, waited))

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request when a thread is free, or with 504 when its deadline passes first."""
        waited, came = seconds_since_received(environ), time.perf_counter()
        if waited > self._deadline_seconds + _LONGEST_WAIT:
            waited = 0.0
        left = self._deadline_seconds - waited
        self.requests.enter()
        header, is_own = header_of(environ), _is_own(environ)
        turn: Turn | None = None
        refusal: LightboxError | None = None
        try:
            try:
                model = None if is_own else self._model_of(environ) if self._model_of else ""
                turn = self._shares.enter(model, left, key_of(header), is_batch(header))
            except LightboxError as error:
                refusal = error
                if isinstance(error, QueueFull | RateLimited):
                    self._shares.pause(left)
            begun = turn is not None and left > 0 and turn.begin(left)
            context = self._make_context(self._deadline_seconds, header, waited + time.perf_counter() - came)
            context.note_caller(header)
            observers, request_id = () if is_own else self._observers, choose_request_id(header)
            exchange = environ[EXCHANGE] = Exchange(environ, start_response, context, request_id, observers)
            if turn is None or not begun or _hung_up(environ):
                return exchange.refuse(refusal or self._not_begun(begun, context.waited))
            context.turn = turn
            with self.requests.progress(request_id, context), OfRequest(request_id):
                return exchange.run(self._app)
        finally:
            if turn is not None:
                turn.end()
            self.requests.leave()

    @staticmethod
    def _not_begun(begun: bool, waited: float) -> LightboxError:
        if not begun:
            return QueueTimeout(f"try again: the request waited {waited:.1f} s for a thread and was not started")
        return ClientDisconnected("try again: the client has disconnected")


class Exchange:
    """One request and its response at the edge. Views find it in the environ under EXCHANGE."""

    def __init__(
        self,
        environ: dict[str, Any],
        start_response: Callable[..., Any],
        context: RequestContext,
        request_id: str,
        observers: Sequence[Observer],
    ) -> None:
        self.context = context
        self.request_id = request_id
        self.route = UNMATCHED
        """The rule that the path matched; None before routing."""
        self.is_observed = True
        """Whether observers receive the response: then the request is logged and counted."""
        self._environ = environ
        self._start_response = start_response
        self._observers = observers
        self.error_code: str | None = None
        """The error that observers receive. A view sets it when it writes the error response itself."""
        self._started = False

    def run(self, app: WsgiApp) -> Iterable[bytes]:
        """Call the app. An exception becomes an error response."""
        try:
            return app(self._environ, self._start)
        except Exception as error:
            return self._fail(as_lightbox_error(error, self.request_id))

    def refuse(self, error: LightboxError) -> list[bytes]:
        """Answer a request without calling the app."""
        if not isinstance(error, ClientDisconnected):
            drain_body(self._environ)
        return self._fail(error)

    def _fail(self, error: LightboxError) -> list[bytes]:
        self.error_code = error.log_code or error.code
        status, headers, body = error_response(
            error, self.request_id, has_model_errors(self._environ.get("PATH_INFO", "")), **error.more
        )
        self._start(status_line(status), headers, sys.exc_info() if self._started else None)
        return [body]

    def _start(self, status: str, headers: Headers, exc_info: Any = None) -> Any:
        """WSGI's start_response for the app: add the common headers, and report the request."""
        self._started = True
        self.context.finish()
        headers = [item for item in headers if item[0] != REQUEST_ID_HEADER]
        headers += [(SERVER_TIMING, self.context.server_timing()), (REQUEST_ID_HEADER, self.request_id)]
        if (model := self.context.answered_by) is not None and int(status[:3]) < 400:
            headers.append((MODEL_HEADER, model))
        write = self._start_response(status, headers, *([exc_info] if exc_info else []))
        if self.is_observed:
            finished = self._finished(int(status[:3]), headers)
            for observer in self._observers:
                observer.responded(finished)
        return write

    def _finished(self, status: int, headers: Headers) -> FinishedRequest:
        sizes = (value for name, value in headers if name.lower() == "content-length")
        return FinishedRequest(
            request_id=self.request_id,
            method=self._environ.get("REQUEST_METHOD", ""),
            path=self._environ.get("PATH_INFO", ""),
            route=self.route,
            status=status,
            bytes_in=_size(self._environ.get("CONTENT_LENGTH")),
            bytes_out=_size(next(sizes, None)),
            error_code=self.error_code,
            context=self.context,
        )


def _size(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def drain_body(environ: dict[str, Any]) -> None:
    """Read and drop the body. With over 64 kB unread, gunicorn resets the connection and nginx must open a new one."""
    stream = environ.get("wsgi.input")
    while stream is not None and stream.read(_PIECE):
        pass


def seconds_since_received(environ: dict[str, Any]) -> float:
    """Return the seconds since nginx had the whole request; 0 without nginx."""
    try:
        return max(0.0, time.time() - float(environ.get(RECEIVED_HEADER, "")))
    except ValueError:
        return 0.0


def _is_own(environ: dict[str, Any]) -> bool:
    """Return whether a request is the supervisor's own: those are neither logged nor counted."""
    return bool(environ.get("PATH_INFO", "").startswith("/internal/"))


def _hung_up(environ: dict[str, Any]) -> bool:
    """Return whether the peer has closed the connection; nginx closes it when its client has."""
    connection = environ.get("gunicorn.socket")
    if connection is None:
        return False
    poller = select.poll()
    poller.register(connection, select.POLLRDHUP)  # reading would return the rest of the body first
    return bool(poller.poll(0))
