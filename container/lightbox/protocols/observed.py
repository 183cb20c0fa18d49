"""What every request gets, whatever its route: a clock, an id, and a word to those who watch."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence

from flask import Flask, Response, g, request

from lightbox.telemetry.clock import RequestClock
from lightbox.telemetry.request_log import UNMATCHED, FinishedRequest, Observer

# The last is boto3's InferenceId: so it is in the log, in errors, and in ResponseMetadata of what boto3 returns.
_REQUEST_ID_HEADERS = ("X-Amzn-RequestId", "X-Request-Id", "X-Amzn-SageMaker-Inference-Id")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


def observe(app: Flask, make_clock: Callable[[], RequestClock], observers: Sequence[Observer]) -> None:
    """Give each request of the app a clock and an id, and tell the observers of it."""

    @app.before_request
    def start() -> None:
        g.clock = make_clock()
        g.request_id = _request_id()
        g.error_code = None
        # What the supervisor asks is nobody's request.
        g.observers = () if request.path.startswith("/internal/") else observers
        for observer in g.observers:
            observer.started()

    @app.after_request
    def finish(response: Response) -> Response:
        response.headers["Server-Timing"] = g.clock.server_timing()
        response.headers["X-Amzn-RequestId"] = g.request_id
        finished = _finished(response)
        for observer in g.observers:
            observer.finished(finished)
        return response

    @app.teardown_request
    def end(_: BaseException | None) -> None:
        if "observers" in g:
            for observer in g.observers:
                observer.ended()


def _finished(response: Response) -> FinishedRequest:
    return FinishedRequest(
        request_id=g.request_id,
        method=request.method,
        path=request.path,
        route=request.url_rule.rule if request.url_rule else UNMATCHED,
        status=response.status_code,
        bytes_in=request.content_length or 0,
        bytes_out=response.content_length or 0,
        error_code=g.error_code,
        clock=g.clock,
    )


def _request_id() -> str:
    """Return the caller's id for this request when it is a plain one, else a new one."""
    for header in _REQUEST_ID_HEADERS:
        given = request.headers.get(header, "")
        if _REQUEST_ID.fullmatch(given):
            return given
    return uuid.uuid4().hex
