"""Shows the running measurement, its results, and the remaining time."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmark.declarations import Scenario


class Progress:
    """Lines on stderr, each with the elapsed and the remaining time."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._began = time.perf_counter()
        self._minutes = {scenario.key: scenario.minutes for scenario in scenarios}
        self._done, self._rounds_done, self._rounds = 0.0, 0, 1
        self._current: Scenario | None = None
        self.say(f"{sum(self._minutes.values()):.0f} minutes on two cores of the machine that the pages are from")

    def say(self, text: str) -> None:
        """Print one step."""
        passed = time.perf_counter() - self._began
        current = self._current.minutes * self._rounds_done / self._rounds if self._current else 0.0
        done = self._done + current
        # The finished part shows how this machine compares with the reference machine of the expected minutes.
        pace = passed / 60 / done if done > 0.25 else 1.0
        left = max(0.0, (sum(self._minutes.values()) - done) * pace)
        print(f"== {passed:5.0f} s, about {left:3.1f} min left  {text}", file=sys.stderr, flush=True)

    def scenario(self, scenario: Scenario) -> None:
        """Print the start of a scenario."""
        if self._current:
            self._done += self._current.minutes
        self._current, self._rounds_done, self._rounds = scenario, 0, max(1, scenario.rounds)
        self.say(scenario.key)

    def round(self, variants: int) -> None:
        """Count a round of this many variants."""
        self._rounds_done += variants

    def experiment(self, title: str, variants: Sequence[Mapping[str, Any]]) -> None:
        """Print the result of an experiment."""
        self.say(f"  {title}:")
        for variant in variants:
            figure = "no answer"
            if "p50" in variant:
                cost = sum(variant["cpu_ms"].values())
                figure = f"p50 {variant['p50']:8.1f} ms, {variant['throughput']:7.1f} requests/s, CPU {cost:6.1f} ms"
            failed = f"; {variant['errors']} failed: {variant['first_error'][:120]}" if variant["errors"] else ""
            print(f"      {variant['name']:44} {figure}{failed}", file=sys.stderr, flush=True)
