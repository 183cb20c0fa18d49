"""The outcome of every request, and the time of every kill: together they show the lost requests."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from soak.client import Fate, Outcome

CLOSING_SECONDS = 15.0
"""After a kill, what is left of nginx closes its idle connections within that, on a busy machine too: a request that
reuses one may meet its end."""


@dataclass
class Kill:
    """One process killed between ``at`` and ``sent``; ``back_after`` is None until all was well again, in seconds."""

    kind: str
    signal: str
    at: float
    sent: float = math.inf
    back_after: float | None = None


class Ledger:
    """Takes notes from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.fates: Counter[tuple[str, str]] = Counter()
        self.kills: list[Kill] = []
        self.lost: list[str] = []
        self._good: list[tuple[float, bool]] = []

    @contextmanager
    def killing(self, kind: str, signal: str) -> Iterator[Kill]:
        """Note a kill around the sending of its signal."""
        kill = Kill(kind, signal, time.monotonic())
        with self._lock:
            self.kills.append(kill)
        try:
            yield kill
        finally:
            kill.sent = time.monotonic()

    def note(self, outcome: Outcome, *expected: int, wrong: str = "") -> bool:
        """Note a request that must be answered with one of some statuses, or refused; tell whether it has one of them.

        ``wrong`` says what is wrong with such an answer.
        """
        right = outcome.status in expected and not wrong
        problem = "" if right or outcome.refused else wrong or f"status {outcome.status}: {outcome.body[:200]!r}"
        label = "503" if outcome.refused else f"{outcome.status}" if outcome.status in (200, 503, 504) else "4xx"
        with self._lock:
            if expected == (200,) or outcome.fate is not Fate.ANSWERED:
                self._good.append((outcome.started, right))
            self._count(outcome, label, problem)
        return right

    def left(self, name: str) -> None:
        """Note a hostile client that waits for no answer."""
        with self._lock:
            self.counts["requests"] += 1
            self.counts["left by their own client"] += 1
            self.fates[name, "left"] += 1

    def again(self, right: bool) -> None:
        """Note what became of a request without an answer, sent once more over a new connection."""
        with self._lock:
            self.counts["sent again"] += 1
            self.counts["answered then"] += right

    def failing_since(self, moment: float) -> tuple[float, int]:
        """Return when the last request after ``moment`` began that failed, and how many good ones were right since."""
        with self._lock:
            later = [(started, right) for started, right in self._good[-5000:] if started >= moment]
        last = max((started for started, right in later if not right), default=moment)
        return last, sum(right for started, right in later if started > last)

    def _count(self, outcome: Outcome, label: str, problem: str) -> None:
        self.counts["requests"] += 1
        # The whole request was sent over a connection that the server had taken.
        self.counts["accepted"] += outcome.fate not in (Fate.NOT_CONNECTED, Fate.UNSENT)
        if outcome.fate is Fate.ANSWERED and not problem:
            self.counts[label] += 1
            self.fates[outcome.name, label] += 1
            return
        if outcome.fate is Fate.CUT and self._holder_died_during(outcome):
            kind = "cut by nginx's death"
        elif outcome.fate is Fate.NOT_CONNECTED or (outcome.fate is Fate.UNSENT and self._holder_died_during(outcome)):
            kind = str(outcome.fate)
        else:
            kind = "lost"
            self.lost.append(f"{outcome.name}: {outcome.fate}, {problem} {outcome.detail}")
        self.counts[kind] += 1
        self.fates[outcome.name, kind] += 1

    def _holder_died_during(self, outcome: Outcome) -> bool:
        first = outcome.started - CLOSING_SECONDS if outcome.reused else outcome.started
        return any(
            kill.kind in outcome.held_by and first <= kill.sent and kill.at <= outcome.ended
            for kill in self.kills[-20:]
        )
