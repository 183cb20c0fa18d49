"""The number of images in flight: fixed, or the smallest number that is about as fast as any.

A round is a few images for each one in flight, and gives a rate. While a doubled number is faster by a tenth, it is
doubled again; otherwise the previous number stays. A refusal halves the number and ends the search. From time to time
the next larger number is tried for a round, as endpoints grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

FIRST, MOST = 8, 64
"""The eight threads of a single-core server. Slightly too many in flight cost no time, too few do."""
GAIN = 1.1
ROUND_EACH, ROUND_LEAST = 3, 24
"""Images of a round: this many for each one in flight, and at least the second number."""
ROUNDS_BETWEEN_SEARCHES = 20


class Concurrency(Protocol):
    """Decides the number of images in flight."""

    @property
    def limit(self) -> int:
        """The current number of images in flight."""
        ...

    def answered(self, now: float, refusals: int) -> None:
        """Note a finished image at a moment, in seconds, after ``refusals``."""
        ...


@dataclass
class Fixed:
    """Always the same number."""

    limit: int

    def answered(self, now: float, refusals: int) -> None:
        """Change nothing."""


@dataclass
class Auto:
    """The search; ``limit`` is the current number of images in flight."""

    limit: int = FIRST
    _searching: bool = True
    _slower: tuple[int, float] | None = None
    """The number before the current trial, and its rate in images a second."""
    _started: float | None = None
    _done: int = 0
    _rounds: int = 0

    def answered(self, now: float, refusals: int) -> None:
        """Halve the number after refusals, else compare rates when enough images are answered."""
        if refusals:
            self._settle(max(1, self.limit // 2))
            return
        if self._started is None:
            self._started = now
            return
        self._done += 1
        if self._done < max(ROUND_LEAST, ROUND_EACH * self.limit):
            return
        rate = self._done / max(now - self._started, 1e-9)
        self._started, self._done = now, 0
        if self._searching:
            self._compare(rate)
        else:
            self._rounds += 1
            if self._rounds >= ROUNDS_BETWEEN_SEARCHES and self.limit < MOST:
                self._try_more(rate)

    def _compare(self, rate: float) -> None:
        if self._slower and rate < self._slower[1] * GAIN:
            self._settle(self._slower[0])
        elif self.limit >= MOST:
            self._settle(self.limit)
        else:
            self._try_more(rate)

    def _try_more(self, rate: float) -> None:
        self._searching, self._slower = True, (self.limit, rate)
        self.limit = min(MOST, self.limit * 2)
        self._started = None

    def _settle(self, limit: int) -> None:
        self.limit, self._searching, self._slower = limit, False, None
        self._started, self._done, self._rounds = None, 0, 0
