"""Loading and unloading as recorded in time: the same answers and states in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from real_server.timelines import TIMELINES, compare_states, differences
from support.model_folder import NO_RETRIES
from support.model_server import ModelServer


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    """A server without models, started like the recorded one."""
    folder = tmp_path_factory.mktemp("server")
    config = folder / "models.config"
    config.write_text("model_config_list {}")
    with ModelServer(folder, f"--model_config_file={config}", NO_RETRIES) as server:
        server.wait_ready()
        with grpc.insecure_channel(server.grpc_address) as channel:
            yield channel


@pytest.mark.parametrize("timeline", TIMELINES, ids=lambda timeline: timeline["name"])
def test_it_runs_as_recorded(channel: grpc.Channel, timeline: dict[str, Any], tmp_path: Path) -> None:
    assert differences(channel, timeline, tmp_path) == []


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
