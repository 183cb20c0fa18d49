"""The targets: CPU time, latency and throughput of one row beside others of its table, and CPU time above the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark import tables
from benchmark.declarations import BOUND
from benchmark.scenarios.common import AUTO, BENTOML, FASTAPI, LITSERVE

UNITS = {"throughput": "requests/s", "p50": "ms (p50)", "p99": "ms (p99)", "cpu": "ms of CPU"}

Experiment = Mapping[str, Any]
"""The result of an experiment."""


@dataclass(frozen=True)
class Target:
    """A row's figure divided by the best of others, in the experiment of a key; its difference from that of ``BOUND``.

    ``bound`` is the maximum for CPU time and latency, the minimum for throughput.
    """

    key: str
    figure: str
    ours: str
    theirs: tuple[str, ...]
    bound: float

    def cells(self, experiment: Experiment) -> list[str]:
        """Return the target's row of the table, [] if the run lacks a figure."""
        rows = {row["name"]: row for row in experiment["variants"]}
        found = [self._figure(rows.get(name, {})) for name in (self.ours, *self.theirs)]
        if not all(found):
            return []
        is_minimum, is_above = self.figure == "throughput", self.theirs == (BOUND,)
        best = (max if is_minimum else min)(found[1:])
        value = found[0] - best if is_above else found[0] / best
        is_met = value >= self.bound if is_minimum else value <= self.bound
        beside = "−" if is_above else "÷"  # noqa: RUF001 - a minus sign
        what = f"{experiment['title']}, {UNITS[self.figure]}: {self.ours} {beside} {' or '.join(self.theirs)}"
        bound = f"{'≥' if is_minimum else '≤'} {tables.number(self.bound)}"
        return [what, bound, tables.number(value), "met" if is_met else "**missed**"]

    def _figure(self, row: Mapping[str, Any]) -> float:
        return float(sum(row.get("cpu_ms", {}).values()) if self.figure == "cpu" else row.get(self.figure, 0.0))


ONE, EIGHT = "same_network_1", "same_network_8"
TARGETS = (
    Target(ONE, "cpu", AUTO, (BOUND,), 1.10),
    Target(EIGHT, "cpu", AUTO, (BOUND,), 1.00),
    Target(ONE, "p50", AUTO, (LITSERVE,), 0.80),
    Target(EIGHT, "throughput", AUTO, (LITSERVE,), 1.35),
    Target(EIGHT, "cpu", AUTO, (LITSERVE,), 0.70),
    Target(EIGHT, "throughput", AUTO, (FASTAPI, BENTOML), 1.10),
    Target(EIGHT, "p99", AUTO, (FASTAPI,), 1.00),
    Target("inside", "p50", "float32 tensor, REST", ("float32 tensor, gRPC",), 1.5),
)


def table(experiments: Sequence[Experiment]) -> list[str]:
    """Return the table of the targets of which a run has the figures."""
    pairs = [(target, each) for target in TARGETS for each in experiments if each["key"] == target.key]
    rows = [cells for target, experiment in pairs if (cells := target.cells(experiment))]
    return tables.table(["figure", "bound", "measured", ""], rows)
