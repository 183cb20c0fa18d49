"""How many images may be in progress: a fixed number, or the smallest that is about as fast as any.

A round is a few images for each that may be in progress, and gives a rate. While twice as many in progress are faster
by a tenth the number is doubled again; when they are not, the number before stays. A refusal halves the number and ends
the search. From time to time the next larger number gets another round, since endpoints grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

FIRST, MOST = 8, 64
"""A server of one core has eight threads. Somewhat more at a time than are needed cost no time, fewer do."""
GAIN = 1.1
ROUND_EACH, ROUND_LEAST = 3, 24
"""Images of a round: so many for each in progress, and no fewer than the second."""
ROUNDS_BETWEEN_SEARCHES = 20


class Concurrency(Protocol):
    """Decides how many images may be in progress."""

    @property
    def limit(self) -> int:
        """How many may be in progress now."""
        ...

    def answered(self, now: float, refusals: int) -> None:
        """Take note of an image that is done at a moment, in seconds, after so many refusals."""
        ...


@dataclass
class Fixed:
    """Always the same number."""

    limit: int

    def answered(self, now: float, refusals: int) -> None:
        """Change nothing."""


@dataclass
class Auto:
    """The search; ``limit`` is how many may be in progress now."""

    limit: int = FIRST
    _searching: bool = True
    _slower: tuple[int, float] | None = None
    """The number before the one on trial, and its rate in images a second."""
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
