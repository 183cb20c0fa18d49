"""Records the outcome of every request and the time of every kill, to find the lost requests."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass

import psutil

from soak.client import Fate, Outcome

CLOSING_SECONDS = 15.0
"""After a kill, what is left of nginx closes its idle connections within that, on a busy machine too: a request that
reuses one may meet its end."""


@dataclass
class Kill:
    """One process killed between ``at`` and ``sent``; ``back_after`` is the recovery time, infinite before it."""

    kind: str
    signal: str
    at: float
    sent: float = math.inf
    back_after: float = math.inf


class Ledger:
    """A thread-safe record; docs/reliability.md says what each count is.

    ``failed_at`` is the start of the last good request that failed, or the time of a later kill; ``right_since`` counts
    the good requests that began after it and have succeeded since.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter(lost=0)
        self.kills: list[Kill] = []
        self.lost: list[str] = []
        self.failed_at, self.right_since = 0.0, 0

    def kill(self, kind: str, victim: psutil.Process, number: signal.Signals) -> Kill:
        """Record the kill, then send the signal to the process."""
        kill = Kill(kind, number.name, time.monotonic())
        with self._lock:
            self.kills.append(kill)
            self.failed_at, self.right_since = kill.at, 0
        victim.send_signal(number)
        kill.sent = time.monotonic()
        return kill

    def note(self, outcome: Outcome) -> bool:
        """Record a request that must be answered as expected or refused; return whether it was answered as expected."""
        try:
            is_right = outcome.status in outcome.request.expected and outcome.request.check(outcome.body)
        except ValueError:
            is_right = False
        with self._lock:
            is_good = outcome.request.expected == (200,) or outcome.fate is not Fate.ANSWERED
            if is_good and outcome.started > self.failed_at:
                self.right_since += 1
                if not is_right:
                    self.failed_at, self.right_since = outcome.started, 0
            self._count(outcome, is_right or outcome.refused)
        return is_right

    def left(self) -> None:
        """Count a hostile client that does not wait for a response."""
        with self._lock:
            self.counts["requests"] += 1
            self.counts["left by their own client"] += 1

    def _count(self, outcome: Outcome, is_justified: bool) -> None:
        self.counts["requests"] += 1
        # The whole request was sent over a connection that the server had accepted.
        self.counts["accepted"] += outcome.fate not in (Fate.NOT_CONNECTED, Fate.UNSENT)
        if outcome.fate is Fate.ANSWERED and is_justified:
            kind = "503" if outcome.refused else f"{outcome.status}" if outcome.status in (200, 503, 504) else "4xx"
        elif outcome.fate is Fate.CUT and self._holder_died_during(outcome):
            kind = "cut by nginx's death"
        elif outcome.fate is Fate.NOT_CONNECTED or (outcome.fate is Fate.UNSENT and self._holder_died_during(outcome)):
            kind = str(outcome.fate)
        else:
            kind = "lost"
            self.lost.append(f"{outcome.request.name}: {outcome.fate}, status {outcome.status}: {outcome.body[:300]!r}")
        self.counts[kind] += 1

    def _holder_died_during(self, outcome: Outcome) -> bool:
        first = outcome.started - CLOSING_SECONDS if outcome.reused else outcome.started
        return any(
            kill.kind in outcome.held_by and first <= kill.sent and kill.at <= outcome.ended
            for kill in self.kills[-20:]
        )
