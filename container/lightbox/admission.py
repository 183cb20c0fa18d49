"""Admission: how many requests a worker works on at once, and which of those that waited are not begun.

How many may wait is nginx's to count, for all workers together. It stands before Flask: what is not begun costs next
to nothing.
"""

from __future__ import annotations

import select
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any

import orjson

from lightbox.errors import STATUS_OF_CODE
from lightbox.telemetry.clock import RequestClock
from lightbox.telemetry.request_log import UNMATCHED, FinishedRequest, Observer

RECEIVED_HEADER = "HTTP_X_LIGHTBOX_RECEIVED"
"""When nginx had the whole request, seconds since the epoch; nginx sets it, a caller's own never gets through."""

_PIECE = 1 << 18

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Admission:
    """WSGI middleware that lets ``in_progress`` requests through at once; the others wait for their turn.

    ``observers`` hear of those that are not begun.
    """

    def __init__(
        self, app: WsgiApp, in_progress: int, deadline_seconds: float, observers: Sequence[Observer] = ()
    ) -> None:
        self._app = app
        self._places = threading.Semaphore(in_progress)
        self._deadline_seconds = deadline_seconds
        self._observers = observers

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request when its turn comes; 504 when its time passed before."""
        left = self._deadline_seconds - seconds_since_received(environ)
        if left <= 0 or not self._places.acquire(timeout=left):
            late = max(self._deadline_seconds, self._deadline_seconds - left)
            reason = f"the request waited {late:.1f} s for its turn and was not begun"
            return self._refuse(environ, start_response, "waited_too_long", reason)
        try:
            if _hung_up(environ):
                return self._refuse(environ, start_response, "hung_up", "the caller has hung up")
            return self._app(environ, start_response)
        finally:
            self._places.release()

    def _refuse(
        self, environ: dict[str, Any], start_response: Callable[..., Any], why: str, reason: str
    ) -> Iterable[bytes]:
        if why != "hung_up":
            _pass_over_body(environ)
        refused, body = _answer_refusal(environ, start_response, why, reason)
        for observer in self._observers:
            observer.finished(refused)
        return [body]


def _pass_over_body(environ: dict[str, Any]) -> None:
    """Read what nobody wants: gunicorn resets a connection with more than 64 kB unread, and nginx makes a new one."""
    stream = environ.get("wsgi.input")
    while stream is not None and stream.read(_PIECE):
        pass


def seconds_since_received(environ: dict[str, Any]) -> float:
    """Return how long ago nginx had the request, 0 when it was not nginx who sent it."""
    try:
        return max(0.0, time.time() - float(environ.get(RECEIVED_HEADER, "")))
    except ValueError:
        return 0.0


def _hung_up(environ: dict[str, Any]) -> bool:
    """Tell whether the other side has closed the connection: nginx does so when its own client has."""
    connection = environ.get("gunicorn.socket")
    if connection is None:
        return False
    poller = select.poll()
    poller.register(connection, select.POLLRDHUP)  # reading would find what is left of the body first
    return bool(poller.poll(0))


def _answer_refusal(
    environ: dict[str, Any], start_response: Callable[..., Any], why: str, reason: str
) -> tuple[FinishedRequest, bytes]:
    request_id = uuid.uuid4().hex
    code = "deadline_exceeded" if why == "waited_too_long" else "unavailable"
    original_status = STATUS_OF_CODE[code].http
    status = f"{original_status} {HTTPStatus(original_status).phrase}"
    body = orjson.dumps({"error": f"try again: {reason}", "code": code, "request_id": request_id})
    headers = []
    path = environ.get("PATH_INFO", "")
    if path.startswith("/endpoints/"):  # there an error is SageMaker's ModelError
        status = "424 Failed Dependency"
        original = {"OriginalStatusCode": original_status, "OriginalMessage": body.decode(), "LogStreamArn": ""}
        body = orjson.dumps({"Message": f"Received status {original_status} from the model container"} | original)
        headers = [("x-amzn-ErrorType", "ModelError")]
    headers += [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Retry-After", "1"),
        ("X-Amzn-RequestId", request_id),
        ("Server-Timing", "total;dur=0"),
    ]
    start_response(status, headers)
    length = environ.get("CONTENT_LENGTH") or ""
    return (
        FinishedRequest(
            request_id=request_id,
            method=environ.get("REQUEST_METHOD", ""),
            path=path,
            route=UNMATCHED,  # Flask has not seen it
            status=int(status[:3]),
            bytes_in=int(length) if length.isascii() and length.isdigit() else 0,
            bytes_out=len(body),
            error_code=why,
            clock=RequestClock(0),
        ),
        body,
    )
