"""Recorded timelines of loads and unloads: the same answers and states in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from real_server import timelines
from real_server.timelines import TIMELINES, make_folders
from support.patience import PATIENCE
from support.stepped_server import SteppedReplay, stepped_server

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("timeline", TIMELINES, ids=lambda timeline: timeline["name"])
def test_it_runs_as_recorded(timeline: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "SECONDS", PATIENCE)
    make_folders(timeline, tmp_path)
    with stepped_server(tmp_path) as (channel, turns):
        assert SteppedReplay(channel, timeline, tmp_path, turns).differences() == []
