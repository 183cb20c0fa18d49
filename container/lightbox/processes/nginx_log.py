"""What nginx tells the supervisor: lines of its log, and how much of request bodies it holds.

nginx asks for room for each large body, by its declared length before any of it is read, and logs a line when it is
done with the request. The supervisor counts for all of nginx's workers: nginx itself can count requests, not bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from lightbox.core.request_context import RequestContext
from lightbox.core.settings import Settings
from lightbox.machine.memory import available_bytes
from lightbox.machine.temporary_storage import free_bytes
from lightbox.telemetry.logs import UNMATCHED, FinishedRequest, Observer

FAILURE = "/failure"
PATHS = (b"GET /room/", f"GET {FAILURE} ".encode())
"""How nginx's questions begin. The worker's process id, the request's id and the body's bytes follow the first; the
second one is asked when nginx itself has failed at a request."""

LENGTH_HEADER = "X-Lightbox-Length"
"""Where nginx's questions have the length of the caller's body, empty where it declared none."""

COUNTED_BYTES = 1_000_000
"""Smaller bodies are not asked for: nginx bounds their number."""

SMALL_BYTES = 2 << 20
"""What a body of unknown length counts, and may have, where the largest finds no room: nginx keeps it in its buffer."""

VERY_LARGE_BYTES = 10_000_000
"""Larger bodies share half of the room, so that a few of them keep no photo out."""


def room_for_bodies(settings: Settings) -> int:
    """Return the bytes that large bodies may hold together: as set, else by what memory and TMPDIR have free now."""
    largest = settings.max_body_mb << 20
    if settings.max_bodies_mb is not None:
        return max(settings.max_bodies_mb << 20, largest)
    free = free_bytes() // 2
    memory = available_bytes()
    return max(2 * largest, free if memory is None else min(free, memory // 4))


def missing_storage(length: str, target: str) -> str | None:
    """Return what does not fit into TMPDIR of a body of ``length`` bytes, None where all does, or nothing is known.

    nginx keeps SMALL_BYTES in memory. A body that declares no length is let in, and told of when it did not fit.
    """
    if _DIGITS.fullmatch(length):
        size = int(length)
        return f"the request body of {size:,} bytes" if size > SMALL_BYTES and free_bytes() < size else None
    failed = target == FAILURE and free_bytes() < SMALL_BYTES
    return "a request body that declares no length" if failed else None


class BodyAccount:
    """What each request of each nginx worker holds. ``most`` bytes together; ``largest`` is the largest body's."""

    def __init__(self, most: int, largest: int) -> None:
        self._most = most
        self._most_very_large = max(most // 2, largest)
        self._held: dict[tuple[str, str], int] = {}

    def answers(self, target: str) -> bool:
        """Take room for ``/room/WORKER/REQUEST/BYTES``; return whether there was some."""
        _, _, worker, request, size = target.split("/")
        return self.take(worker, request, int(size))

    def take(self, worker: str, request: str, size: int) -> bool:
        """Note a body of ``size`` bytes; return False, and note nothing, where there is no room for it."""
        held = sum(self._held.values())
        very_large = sum(bytes_ for bytes_ in self._held.values() if bytes_ > VERY_LARGE_BYTES)
        if held + size > self._most or (size > VERY_LARGE_BYTES and very_large + size > self._most_very_large):
            return False
        self._held[worker, request] = size
        return True

    def give_back(self, worker: str, request: str) -> None:
        """Note that nginx is done with a request, whether its body was counted or not."""
        self._held.pop((worker, request), None)

    def lost_worker(self, worker: str) -> None:
        """Note that a worker of nginx is gone, with all that it held."""
        self._held = {key: size for key, size in self._held.items() if key[0] != worker}

    def clear(self) -> None:
        """Note that nginx is gone."""
        self._held.clear()


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
        return None if self.swallows(line) else line

    def swallows(self, line: str) -> bool:
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
        told = _LINE.match(line)
        if told is None:
            return False
        if told["said"].startswith(_REFUSED):
            return True
        if lost := _LOST_WORKER.match(told["said"]):
            self._lost_worker(lost[1])
        return LEVELS.index(told["level"]) < self._wanted


class RefusedRequests:
    """Logs and counts each."""

    def __init__(self, log: Observer) -> None:
        self._log = log
        self.reasons: Counter[str] = Counter()
        """How many there were of each error code, for ``/metrics``."""

    def answered(self, told: str) -> None:
        """Log and count a request by what nginx tells of it, JSON as nginx.conf has it."""
        fields = orjson.loads(told)
        self.reasons[fields["code"]] += 1
        self._log.responded(_read(fields))


def _read(told: dict[str, Any]) -> FinishedRequest:
    # The first line as it came: where it is no HTTP, it has neither method nor path.
    method, _, rest = told["request"].partition(" ")
    well_formed = method.isascii() and method.isalpha() and rest.startswith("/")
    context = RequestContext(0)
    context.started -= told["seconds"]
    return FinishedRequest(
        request_id=told["request_id"],
        method=method if well_formed else "-",
        path=rest.partition(" ")[0].partition("?")[0] if well_formed else "-",
        route=UNMATCHED,
        status=int(told["status"]),
        bytes_in=int(told["bytes_in"]) if _DIGITS.fullmatch(told["bytes_in"]) else 0,
        bytes_out=told["bytes_out"],
        error_code=told["code"],
        context=context,
    )
