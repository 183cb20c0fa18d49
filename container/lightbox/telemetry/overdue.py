"""Requests that threads still work on after nginx has answered 504."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lightbox.core.request_context import RequestContext

log = logging.getLogger("lightbox")


class Overdue:
    """Knows the requests in progress, and which have taken more than ``answered_after`` seconds since they came.

    nginx has answered such a request with 504. A thread cannot be ended, so code that does not look at its deadline
    runs on, a user's loop above all. The log tells of it once, and a stop does not wait for it.
    """

    def __init__(self, answered_after: float) -> None:
        self._answered_after = answered_after
        self._lock = threading.Lock()
        self._in_progress: dict[str, RequestContext] = {}
        self._told: set[str] = set()

    @contextmanager
    def watch(self, request_id: str, context: RequestContext) -> Iterator[None]:
        """Count a request as in progress meanwhile; another request may have the same id."""
        key = f"{request_id} {id(context)}"
        with self._lock:
            self._in_progress[key] = context
        try:
            yield
        finally:
            with self._lock:
                del self._in_progress[key]
                if key in self._told:
                    self._told.discard(key)
                    log.warning("request %s: ended %.0f s after its arrival", request_id, _age(context))

    def count(self) -> int:
        """Return how many there are; tell of those that are new."""
        with self._lock:
            late = {key: _age(context) for key, context in self._in_progress.items() if self._is_late(context)}
            new = late.keys() - self._told
            self._told |= new
        for key in new:
            log.warning(
                "request %s: still in progress %.0f s after its arrival, answered with 504 after %.0f s",
                key.split()[0],
                late[key],
                self._answered_after,
            )
        return len(late)

    def _is_late(self, context: RequestContext) -> bool:
        return _age(context) > self._answered_after


def _age(context: RequestContext) -> float:
    return context.waited + context.elapsed()
