"""gunicorn's worker with threads, whose own refusals come in our form: by default they are pages of HTML."""

from __future__ import annotations

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
from lightbox.protocols.edge import choose_request_id, error_response, http_bytes

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
        sent = {} if req is None else {name.title(): value for name, value in req.headers}
        answer = error_response(error, choose_request_id(lambda name: sent.get(name.title())), getattr(req, "path", ""))
        try:
            write_nonblock(client, http_bytes(*answer))
        except OSError:
            self.log.debug("the caller has hung up")
