"""The room for lines that a pause makes, and the report of those that were dropped."""

from __future__ import annotations

import time

import pytest

from lightbox.base.telemetry.line_limit import LineLimit, few_lines


def test_a_pause_makes_room_for_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limit = LineLimit("handlers", 10, 100, "A_SETTING")
    assert [limit.admits(60), limit.admits(60, lines=3), limit.admits(40)] == [True, False, True]
    assert limit.report() is None
    now += 6
    assert [limit.admits(60), limit.admits(61)] == [True, False]
    assert limit.report() == "4 log lines of handlers were dropped: more than 10 bytes per second (A_SETTING)"
    assert (limit.report(), limit.dropped) == (None, 4)
    now += 1000
    assert [limit.admits(100), limit.admits(1)] == [True, False]
    assert few_lines("others").after(limit).dropped == 5
