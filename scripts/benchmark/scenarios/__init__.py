"""The scenarios. Each module declares one; this list has the order of the pages."""

from __future__ import annotations

from collections.abc import Callable

from benchmark.declarations import Scale, Scenario
from benchmark.scenarios import load, scale, wire

SCENARIOS: dict[str, Callable[[Scale], Scenario]] = {
    "wire": wire.scenario,
    "load": load.scenario,
    "scale": scale.scenario,
}
