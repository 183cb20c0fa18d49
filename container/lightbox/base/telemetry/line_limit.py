"""How much of the log a process may fill."""

from __future__ import annotations

import time

REPORT_SECONDS = 5.0
"""Least time from a dropped line to the line that counts it: a flood of lines is reported seldom."""


class LineLimit:
    """Bytes of log lines: ``per_second`` on average, and ``at_once`` after a pause; for one thread.

    ``whose`` names the writer in the report of dropped lines, ``setting`` the variable that raises the limit.
    """

    def __init__(self, whose: str, per_second: int, at_once: int, setting: str = "") -> None:
        self.at_once = at_once
        self.dropped = 0
        """Lines dropped so far."""
        self._per_second = per_second
        self._reason = f"{whose} were dropped: more than {per_second} bytes per second{setting and f' ({setting})'}"
        self._left, self._seen = float(at_once), time.monotonic()
        self._reported, self._report_at = 0, 0.0

    def after(self, other: LineLimit) -> LineLimit:
        """Return this limit, which takes the place of another one and goes on with its count."""
        self.dropped, self._reported, self._report_at = other.dropped, other._reported, other._report_at
        return self

    def admits(self, size: int, lines: int = 1) -> bool:
        """Return whether lines of ``size`` bytes may be written; else count them as dropped."""
        now = time.monotonic()
        self._left = min(self.at_once, self._left + (now - self._seen) * self._per_second)
        self._seen = now
        if size <= self._left:
            self._left -= size
            return True
        if self.dropped == self._reported:
            self._report_at = now + REPORT_SECONDS
        self.dropped += lines
        return False

    def report(self, is_last: bool = False) -> str | None:
        """Return the message about lines dropped since the last one, None if there are none or it is not due yet."""
        count = self.dropped - self._reported
        if not count or (time.monotonic() < self._report_at and not is_last):
            return None
        self._reported = self.dropped
        return f"{count} log lines of {self._reason}"


def few_lines(whose: str) -> LineLimit:
    """Return the limit of a process whose lines callers may cause: a request gets less than 64 kB of them."""
    return LineLimit(whose, 512, 32 << 10)


def record_lines(whose: str) -> LineLimit:
    """Return the limit of own records, of which a request causes a few; a hundred loads may fail at once."""
    return LineLimit(whose, 8 << 10, 32 << 10)


def many_lines(whose: str, kilobytes: int = 256, setting: str = "") -> LineLimit:
    """Return the limit of a process that runs the operator's code."""
    return LineLimit(whose, kilobytes << 10, kilobytes << 12, setting)
