"""gunicorn's threaded worker, with our JSON errors in place of its HTML pages."""

from __future__ import annotations

import logging
import os
import select
import time
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
from typing_extensions import override

from lightbox.base.error_bodies import error_response, has_model_errors, http_bytes
from lightbox.base.errors import BadRequest, LightboxError
from lightbox.base.machine.scarcity import SCARCE
from lightbox.base.request_context import choose_request_id
from lightbox.core.edge import Edge
from lightbox.core.heartbeats import beat

_OURS = (InvalidResponseHeader, InvalidResponseHeaderName)
_STATUSES = {LimitRequestHeaders: 431, LimitRequestLine: 414}
LINGER_MS = 10
"""Milliseconds that a thread waits for the next request of a connection; enough for a busy client."""
BEAT_SECONDS = 0.5
"""Least time between two heartbeats for the supervisor, which looks each second."""
PAUSE_SECONDS = 0.5
"""Time without new connections after one could not be accepted, so that the loop does not spin over it."""


class JsonWorker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """Answers unreadable requests, and failures outside the app, with ``{"error", "code", "request_id"}``."""

    @override
    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        # There is no response yet, and the connection ends after this one.
        if isinstance(exc, ParseException) and not isinstance(exc, _OURS):
            error: LightboxError = BadRequest(f"the request cannot be read: {exc}", _STATUSES.get(type(exc)))
            self.log.warning("%s", error.message)
        else:
            error = LightboxError(f"internal error: {type(exc).__name__}")
            self.log.exception("a request failed outside the app")
        sent = {} if req is None else {name.title(): value for name, value in req.headers}
        request_id = choose_request_id(lambda name: sent.get(name.title()))
        response = error_response(error, request_id, has_model_errors(getattr(req, "path", "")))
        try:
            write_nonblock(client, http_bytes(*response))
        except OSError:
            self.log.debug("the caller has disconnected")


class LingeringWorker(JsonWorker):
    """Keeps a thread on a busy connection for several requests."""

    _beaten = 0.0
    _accepts_from = 0.0

    @override
    def accept(self, listener: Any) -> None:
        """Accept a connection; where the process has no descriptor for it, leave it to another worker or to later."""
        try:
            super().accept(listener)
        except OSError as error:
            # gunicorn ends the worker, and with it every request in progress.
            if error.errno not in SCARCE:
                raise
            self.log.warning("no connection is accepted for %g s: %s", PAUSE_SECONDS, error.strerror)
            self._accepts_from = time.monotonic() + PAUSE_SECONDS
            self.set_accept_enabled(False)

    @override
    def set_accept_enabled(self, enabled: bool) -> None:
        """Watch the listeners or leave them, which gunicorn asks for at each turn of its loop."""
        super().set_accept_enabled(enabled and time.monotonic() >= self._accepts_from)

    def handle(self, conn: Any) -> Any:
        """Answer the requests of a connection until it pauses; return the result of gthread's ``handle``."""
        kept = super().handle(conn)
        while kept is True and self._threads_are_enough() and _next_request_arrived(conn):
            kept = super().handle(conn)
        return kept

    def notify(self) -> None:
        """Send the heartbeat; at a stop, end as soon as only requests are left that were answered with 504."""
        super().notify()
        now = time.monotonic()
        if self.cfg.worker_tmp_dir and now - self._beaten >= BEAT_SECONDS:
            self._beaten = now
            beat(self.cfg.worker_tmp_dir, self.pid)
        late = self._overdue()
        if late and not self.alive and self.nr_conns - self._idle_connections() <= late:
            self.log.warning("stopping with %d requests that were answered with 504 and are still in progress", late)
            logging.shutdown()
            os._exit(0)  # Python cannot end a thread, and the interpreter would wait for it

    def _overdue(self) -> int:
        edge = getattr(getattr(self, "wsgi", None), "wsgi_app", None)  # absent while the app is loading
        return edge.requests.overdue() if isinstance(edge, Edge) else 0

    def _idle_connections(self) -> int:
        return len(self.keepalived_conns) + len(self.pending_conns)

    def _threads_are_enough(self) -> bool:
        """Return whether no connection waits for a thread: lingering must not delay others."""
        return bool(self.alive and self.nr_conns - self._idle_connections() <= self.cfg.threads)


def _next_request_arrived(conn: Any) -> bool:
    poller = select.poll()
    poller.register(conn.sock, select.POLLIN)
    return bool(poller.poll(LINGER_MS))
