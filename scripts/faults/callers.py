"""The callers of a stack: they send, wait, and write each request and each response to the history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from random import Random

from faults.answers import read
from faults.checker import Answers, is_good
from faults.client import Client, Fate, Outcome, Request
from faults.history import History, Line

PING = Request("ping", "/ping", method="GET")
PING_SECONDS = 1.0


class Watch:
    """Follows a history as it is written: whether good requests are answered again.

    ``failed_at`` is the start of the last one that failed, or the beginning of a later fault; ``right_since`` counts
    those that began after it and have succeeded since. Both are times of the history's.
    """

    def __init__(self) -> None:
        self.failed_at, self.right_since, self.requests = 0.0, 0, 0
        self._answers = Answers()
        self._sent: dict[int, Line] = {}

    def take(self, line: Line) -> None:
        """Take the next line."""
        self._answers.take(line)
        if "fault" in line or "over" in line:
            self.failed_at, self.right_since = line["at"], 0
        elif "sent" in line:
            self._sent[line["sent"]] = line
        elif "came" in line:
            sent = self._sent.pop(line["came"])
            self.requests += 1
            if is_good(sent) and sent["at"] > self.failed_at:
                self.right_since += 1
                if not self.is_right(sent, line):
                    self.failed_at, self.right_since = sent["at"], 0

    def is_right(self, sent: Line, came: Line) -> bool:
        """Return whether a response is the expected one."""
        return came.get("status") in sent["expected"] and not self._answers.fault_of(sent, came)


@dataclass
class Caller:
    """One of the callers of a stack, with connections of its own.

    It waits after each request, and raises CancelledError when the load is over.
    """

    client: Client
    history: History
    watch: Watch
    random: Random
    stop: threading.Event
    think_seconds: float

    def send(self, request: Request) -> tuple[Outcome, bool]:
        """Send a request and record it; return the outcome and whether the response is as expected."""
        sent = self.history.note(
            sent=self.history.number(),
            name=request.name,
            via=request.via,
            expected=[*request.expected],
            like=request.like,
            ends=request.ends,
            limit=request.limit,
        )
        outcome = self.client.send(request, sent["sent"])
        came: dict[str, object] = {"came": outcome.number, "reused": outcome.reused}
        if outcome.fate is Fate.ANSWERED:
            is_answer = request.like is not None and outcome.status == 200
            came |= {"status": outcome.status, "retry": outcome.retry, "of": outcome.of}
            came["answer"] = self.history.key(read(outcome.body, request.form)) if is_answer else None
        else:
            came["end"] = outcome.fate
        if outcome.status != 200:
            came["detail"] = outcome.body[:300].decode(errors="replace")
        is_right = self.watch.is_right(sent, self.history.note(**came))
        self.think()
        return outcome, is_right

    def change(self, request: Request) -> bool | None:
        """Send a change; return whether it was made, None if it can still complete: the connection ended."""
        outcome, is_right = self.send(request)
        return is_right if outcome.fate is Fate.ANSWERED else None

    def think(self, seconds: float | None = None) -> None:
        """Wait between two requests."""
        if self.stop.wait(self.random.uniform(0, self.think_seconds) if seconds is None else seconds):
            raise CancelledError


Act = Callable[[Caller], object]
"""The action of a caller, repeated."""


def any_of(known: Sequence[Request], caller: Caller) -> None:
    """Send a request drawn at random from ``known``."""
    caller.send(caller.random.choice(known))


def ping(caller: Caller, request: Request = PING) -> None:
    """Send /ping, or the health route of another server, as a platform does."""
    caller.client.keep = False
    caller.send(request)
    caller.think(PING_SECONDS)


def wait_for(check: Callable[[], bool], seconds: float, stop: threading.Event, pause: float = 0.05) -> bool:
    """Return whether a check holds within some seconds; stop looking when ``stop`` is set."""
    deadline = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < deadline and not stop.wait(pause):
        pass
    return found
