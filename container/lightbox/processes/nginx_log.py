"""Lines of nginx's log: requests that it answered itself, bodies that it is done with, workers that it lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from lightbox.core.request_context import RequestContext
from lightbox.telemetry.logs import UNMATCHED, FinishedRequest, Observer

LEVELS = ("debug", "info", "notice", "warn", "error", "crit", "alert", "emerg")
_LEAST_SAID = "error"
"""nginx says at least this much, whatever the operator wants to read: refusals and lost workers are told so."""

_LINE = re.compile(rf"\S+ \S+ \[(?P<level>{'|'.join(LEVELS)})\] \d+#\d+: (\*\d+ )?(?P<said>.*)")
"""Date, time, level, process and connection. Matched from its beginning: a caller's words come later in a line."""

_REFUSED = "no live upstreams while connecting to upstream"
"""nginx refuses a request because the sidecar has as many as it takes: the request's own line says so too."""

ANSWERED = "lightbox-answered "
"""What the line of a request that nginx itself answered begins with, as nginx.conf has it; JSON follows."""

FINISHED = "lightbox-finished "
"""What the line of a request with a counted body begins with, once nginx is done with it: worker and request follow."""

_LOST_WORKER = re.compile(r"worker process (\d+) exited (on signal|with fatal code)")
_DIGITS = re.compile("[0-9]{1,18}")  # a caller's own Content-Length, which may be why it was refused


def level_to_log(wanted: str) -> str:
    """Return the level that nginx is to log at when an operator wants to read ``wanted``."""
    return min(wanted, _LEAST_SAID, key=LEVELS.index)


class NginxLog:
    """Hears every line; calls ``answered`` with what is told of a request that nginx answered itself, ``finished``
    with the worker and the request whose counted body is gone, and ``lost_worker`` when a worker died."""

    def __init__(
        self,
        wanted: str,
        answered: Callable[[str], None],
        finished: Callable[[str, str], None],
        lost_worker: Callable[[str], None],
    ) -> None:
        self._wanted = LEVELS.index(wanted)
        self._answered = answered
        self._finished = finished
        self._lost_worker = lost_worker

    def edit(self, line: str) -> str | None:
        """Return a line that is to be logged, None for others; note what they tell."""
        return None if self.consumes(line) else line

    def consumes(self, line: str) -> bool:
        """Act upon a line, and tell whether nobody is to read it as it is."""
        if line.startswith(ANSWERED):
            try:
                self._answered(line.removeprefix(ANSWERED))
            except ValueError:  # not as it was written: better shown than lost, with all that comes after it
                return False
            return True
        if line.startswith(FINISHED):
            worker, _, request = line.removeprefix(FINISHED).partition(" ")
            self._finished(worker, request)
            return True
        entry = _LINE.match(line)
        if entry is None:
            return False
        if entry["said"].startswith(_REFUSED):
            return True
        if lost := _LOST_WORKER.match(entry["said"]):
            self._lost_worker(lost[1])
        return LEVELS.index(entry["level"]) < self._wanted


class RefusedRequests:
    """Logs and counts each."""

    def __init__(self, log: Observer) -> None:
        self._log = log
        self.reasons: Counter[str] = Counter()
        """How many there were of each error code, for ``/metrics``."""

    def answered(self, line: str) -> None:
        """Log and count a request by what nginx tells of it, JSON as nginx.conf has it."""
        fields = orjson.loads(line)
        self.reasons[fields["code"]] += 1
        self._log.responded(_read(fields))


def _read(fields: dict[str, Any]) -> FinishedRequest:
    # The first line as it came: where it is no HTTP, it has neither method nor path.
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
