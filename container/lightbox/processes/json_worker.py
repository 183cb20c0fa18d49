"""gunicorn's worker with threads, whose own refusals come in our form: by default they are pages of HTML."""

from __future__ import annotations

import json
import uuid
from http import HTTPStatus
from typing import Any

from gunicorn.http.errors import (
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.util import write_nonblock
from gunicorn.workers.gthread import ThreadWorker

from lightbox.errors import BadRequest, LightboxError

_OURS = (InvalidResponseHeader, InvalidResponseHeaderName)
_STATUSES = {LimitRequestHeaders: 431, LimitRequestLine: 414}


class JsonWorker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """Answers what it cannot read, or what fails outside of the app, with ``{"error", "code", "request_id"}``."""

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """See gunicorn's Worker.handle_error: nothing has been answered yet, and the connection ends after this."""
        if isinstance(exc, ParseException) and not isinstance(exc, _OURS):
            error: LightboxError = BadRequest(f"the request cannot be read: {exc}", _STATUSES.get(type(exc)))
            self.log.warning("%s", error.message)
        else:
            error = LightboxError(f"internal error: {type(exc).__name__}")
            self.log.exception("a request failed outside of the app")
        try:
            write_nonblock(client, _answer(error))
        except OSError:
            self.log.debug("the caller has hung up")


def _answer(error: LightboxError) -> bytes:
    body = json.dumps({"error": error.message, "code": error.code, "request_id": uuid.uuid4().hex}).encode()
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
