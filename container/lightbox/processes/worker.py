"""gunicorn's threaded worker, whose threads wait a moment for the next request on the connection they have.

gthread hands every kept-alive connection back to its main thread after an answer, and takes it from there when the next
request is in: five switches between threads that share one GIL. nginx sends the next request on the connection that
was free last, so it mostly comes to the thread that is still there.
"""

from __future__ import annotations

import logging
import os
import select
from typing import Any

from lightbox.processes.json_worker import JsonWorker
from lightbox.protocols.edge import Edge

LINGER_MS = 2
"""How long a thread waits for the next request, in milliseconds: longer than a busy client needs, and no longer."""


class LingeringWorker(JsonWorker):
    """Answers request after request of a busy connection in one thread."""

    def handle(self, conn: Any) -> Any:
        """Answer the requests of a connection until it pauses; returns what gthread's ``handle`` does."""
        kept = super().handle(conn)
        while kept is True and self._threads_are_enough() and _next_is_here(conn):
            kept = super().handle(conn)
        return kept

    def notify(self) -> None:
        """Give a sign of life, as every second; end at a stop when nothing is left but what has been answered."""
        super().notify()
        late = self._overdue()
        if late and not self.alive and self.nr_conns - self._resting() <= late:
            self.log.warning("stopping with %d requests that were answered and are still worked on", late)
            logging.shutdown()
            os._exit(0)  # a thread cannot be ended, and the interpreter would wait for it

    def _overdue(self) -> int:
        edge = getattr(self.wsgi, "wsgi_app", None)
        return edge.overdue.count() if isinstance(edge, Edge) else 0

    def _resting(self) -> int:
        return len(self.keepalived_conns) + len(self.pending_conns)

    def _threads_are_enough(self) -> bool:
        """Tell whether no connection waits for a thread: who lingers must not keep another from its turn."""
        return bool(self.alive and self.nr_conns - self._resting() <= self.cfg.threads)


def _next_is_here(conn: Any) -> bool:
    poller = select.poll()
    poller.register(conn.sock, select.POLLIN)
    return bool(poller.poll(LINGER_MS))
