"""Lines of nginx's log: requests that nginx answered itself, released bodies, lost workers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry.line_limit import few_lines
from lightbox.base.telemetry.logs import UNMATCHED, FinishedRequest, Observer, log
from lightbox.base.telemetry.metrics import QUEUE_FULL

LEVELS = ("debug", "info", "notice", "warn", "error", "crit", "alert", "emerg")
_LEAST_SAID = "error"
"""nginx's least verbose level; at this level it still reports refusals and lost workers."""

_LINE = re.compile(rf"\S+ \S+ \[(?P<level>{'|'.join(LEVELS)})\] \d+#\d+: (\*\d+ )?(?P<said>.*)")
"""Date, time, level, process and connection. Anchored at the beginning: a caller's text comes later in a line."""

REFUSED = "no live upstreams while connecting to upstream"
"""nginx refuses a request because the sidecar is full: hundreds a second under overload. The request's own line reports
it too."""

ANSWERED = "lightbox-answered "
"""First word of the line about a request that nginx answered itself, as in nginx.conf; JSON follows."""

FINISHED = "lightbox-finished "
"""First word of the line about a request with a counted body at its end; worker and request follow."""

_LOST_WORKER = re.compile(r"worker process (\d+) exited (on signal|with fatal code)")
_DIGITS = re.compile("[0-9]{1,18}")  # a caller's own Content-Length, which may be the reason for the refusal


def level_to_log(wanted: str) -> str:
    """Return nginx's log level for the operator's level ``level``."""
    return min(wanted, _LEAST_SAID, key=LEVELS.index)


class NginxLog:
    """Parses nginx's log. Calls ``answered`` with the JSON of a request that nginx answered itself, ``finished`` with
    worker and request of a released body, and ``lost_worker`` when a worker has died."""

    def __init__(
        self,
        level: str,
        answered: Callable[[str], None],
        finished: Callable[[str, str], None],
        lost_worker: Callable[[str], None],
    ) -> None:
        self._wanted = LEVELS.index(level)
        self._answered = answered
        self._finished = finished
        self._lost_worker = lost_worker

    def edit(self, line: str) -> str | None:
        """Return a line for the log, None if it is dropped."""
        return None if self.consumes(line) else line

    def consumes(self, line: str) -> bool:
        """Handle a line; return whether to drop it from the log."""
        if line.startswith(ANSWERED):
            try:
                self._answered(line.removeprefix(ANSWERED))
            except ValueError:  # in another form: better shown than lost
                return False
            return True
        if line.startswith(FINISHED):
            worker, _, request = line.removeprefix(FINISHED).partition(" ")
            self._finished(worker, request)
            return True
        entry = _LINE.match(line)
        if entry is None:
            return False
        if entry["said"].startswith(REFUSED):
            return True
        if lost := _LOST_WORKER.match(entry["said"]):
            self._lost_worker(lost[1])
        return LEVELS.index(entry["level"]) < self._wanted


class RefusedRequests:
    """Logs and counts the requests that nginx refused. The lines about an overload have a limit: they take CPU time."""

    def __init__(self, log: Observer) -> None:
        self._log = log
        self.limit = few_lines("refused requests")
        self.reasons: Counter[str] = Counter()
        """The number of refusals by error code, for ``/metrics``."""

    def answered(self, line: str) -> None:
        """Log and count a request from nginx's JSON about it."""
        fields = orjson.loads(line)
        self.reasons[fields["code"]] += 1
        if fields["code"] != QUEUE_FULL or self.limit.admits(len(line)):
            self._log.responded(_read(fields))
        if report := self.limit.report():
            log(report)


def _read(fields: dict[str, Any]) -> FinishedRequest:
    # The raw request line: if it is not HTTP, it has neither method nor path.
    method, _, rest = fields["request"].partition(" ")
    well_formed = method.isascii() and method.isalpha() and rest.startswith("/")
    context = RequestContext(0)
    context.started -= fields["seconds"]
    if caller := fields.get("caller"):
        context.note(caller=caller)
    return FinishedRequest(
        request_id=fields["request_id"],
        method=method if well_formed else "-",
        path=rest.partition(" ")[0].partition("?")[0] if well_formed else "-",
        route=UNMATCHED,
        status=int(fields["status"]),
        bytes_in=int(fields["bytes_in"]) if _DIGITS.fullmatch(fields["bytes_in"]) else 0,
        bytes_out=fields["bytes_out"],
        error_code=fields["code"],
        context=context,
    )
