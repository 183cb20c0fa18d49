"""Recorded timelines of loads and unloads: the same answers and states in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from real_server import timelines
from real_server.timelines import TIMELINES, compare_states, make_folders
from support.patience import PATIENCE
from support.stepped_server import SteppedReplay, stepped_server

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("timeline", TIMELINES, ids=lambda timeline: timeline["name"])
def test_it_runs_as_recorded(timeline: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "SECONDS", PATIENCE)
    make_folders(timeline, tmp_path)
    with stepped_server(tmp_path) as (channel, turns):
        assert SteppedReplay(channel, timeline, tmp_path, turns).differences() == []


RECORDED = ["NOT_FOUND m", "2:START 1:START", "2:LOADING 1:START", "2:AVAILABLE 1:START", "2:AVAILABLE 1:AVAILABLE"]


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (RECORDED, ""),
        ([RECORDED[0], RECORDED[1], RECORDED[3], RECORDED[4]], ""),
        ([*RECORDED[:2], "2:START 1:LOADING", *RECORDED[3:]], "2:START 1:LOADING is not where it was recorded"),
        ([RECORDED[0], RECORDED[2], RECORDED[1], *RECORDED[3:]], "2:START 1:START is not where it was recorded"),
        ([RECORDED[0], *RECORDED[3:]], "2:START 1:START was not seen"),
    ],
)
def test_states_in_another_order_are_found(seen: list[str], problem: str) -> None:
    found = compare_states(RECORDED, seen)
    assert "".join(found[:1]).startswith(problem)
    assert bool(found) == bool(problem)
