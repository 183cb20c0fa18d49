"""Replay load with machines added by each signal in turn: who waits, who is refused, what it costs.

Every signal gets the target, of a grid, at which it does best.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capacity import measured
from lightbox.harness.tables import table
from scaling.machine import Work, figures
from scaling.replay import SIGNALS, TICK, Outcome, Scenario, Signal, replay_all

RESULTS = Path(__file__).parents[1] / "docs" / "benchmarks" / "results.json"
CORES = 2
"""Of the machine that was measured."""
START_SECONDS = 90.0
"""From the wish for a machine to its first answer: a node's start, an image's pull, and the container's few seconds."""
LOADS = tuple(number / 20 for number in range(4, 19))
"""Targets: what a signal shows at so much of the cores' time, with the usual work."""
MOST_BAD = 0.01
"""Share of the requests that may wait for a thread or be refused."""
SAME_WORK = 3
"""Scenarios, from the first on, in which the work of a request stays as it is."""
LARGE_IMAGE = 61.7 / 22.7
"""CPU time of a 2048x2048 image to that of a 512x512 one, from docs/production.md."""
ELSEWHERE = 0.5
"""Seconds in which a handler waits for another service, in the scenario of that name."""


@dataclass(frozen=True)
class Result:
    """A signal at a target."""

    signal: Signal
    target: float
    outcomes: list[Outcome]

    @property
    def total(self) -> Outcome:
        """Over all scenarios."""
        return sum(self.outcomes, Outcome())


def scenarios(cpu: float) -> list[Scenario]:
    """Return what is replayed; ``cpu`` is seconds of a core for a request."""
    hour, usual = 3600 // TICK, Work(cpu)

    def day(now: int) -> float:
        return 600 - 400 * math.cos(2 * math.pi * now / (24 * hour))

    def spike(now: int) -> float:
        return 900 if hour <= now < hour + hour // 3 else 300

    def in_the_second_hour(changed: Work) -> Scenario:
        name = "slow handler" if changed.elsewhere else "larger images"
        return Scenario(name, 3 * hour, lambda now: 300, lambda now: changed if hour <= now < 2 * hour else usual)

    return [
        Scenario("day", 24 * hour, day, lambda now: usual),
        Scenario("spike", 3 * hour, spike, lambda now: usual),
        Scenario("lost zone", 2 * hour, lambda now: 600, lambda now: usual, lost=hour),
        in_the_second_hour(Work(cpu * LARGE_IMAGE)),
        in_the_second_hour(Work(cpu, ELSEWHERE)),
    ]


def target(signal: Signal, load: float, cpu: float) -> float:
    """Return what a signal shows at a share of the cores' time."""
    return signal.read(figures(round(100 * load * CORES / cpu), Work(cpu), CORES))


def results_of(signal: Signal, cpu: float, start_seconds: float, seed: int) -> list[Result]:
    """Return what comes of each target."""
    aims = [target(signal, load, cpu) for load in LOADS]
    return [Result(signal, aim, replay_all(scenarios(cpu), signal, aim, CORES, start_seconds, seed)) for aim in aims]


def best(results: Sequence[Result], first: int) -> Result:
    """Return the best target for the first of the scenarios."""
    return min((Result(one.signal, one.target, one.outcomes[:first]) for one in results), key=rank)


def rank(result: Result) -> tuple[float, float]:
    """Order results: those that keep the bound by what they cost, then the others by who waits or is refused."""
    total = result.total
    return (0.0, total.hours) if total.bad <= MOST_BAD else (total.bad, total.hours)


def sheet(results: Sequence[Result], names: Sequence[str]) -> list[str]:
    """Return the table as Markdown, best signal first."""
    replayed = names[: len(results[0].outcomes)]
    header = ("signal", "target", "waited", "refused", "machine-hours", *(f"{name}: bad, hours" for name in replayed))
    return table(header, (_row(result) for result in sorted(results, key=rank)), "r")


def _row(result: Result) -> list[str]:
    total = result.total
    return [
        result.signal.name,
        f"{result.target:.3g}",
        f"{total.waiting / total.requests:.2%}",
        f"{total.refused / total.requests:.2%}",
        f"{total.hours:,.0f}",
        *(f"{one.bad:.2%}, {one.hours:,.0f}" for one in result.outcomes),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-ms", type=float, help="CPU time of one image; without it the one of docs/benchmarks")
    parser.add_argument("--start-seconds", type=float, default=START_SECONDS, help="from the wish to the first answer")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    cpu_ms = options.cpu_ms
    if cpu_ms is None:
        _, unit = measured(json.loads(RESULTS.read_text()))
        cpu_ms = unit.cpu_ms
    for option, value in (("--start-seconds", options.start_seconds), ("--cpu-ms", cpu_ms)):
        if not 0 < value < math.inf:
            parser.error(f"{option}: expected a number above 0, not {value:g}")
    cpu = cpu_ms / 1000
    print(f"{cpu_ms:g} ms of CPU for an image, machines of {CORES} cores that start in {options.start_seconds:g} s.")
    names = [scenario.name for scenario in scenarios(cpu)]
    runs = [results_of(signal, cpu, options.start_seconds, options.seed) for signal in SIGNALS]
    for title, first in (("The work stays the same", SAME_WORK), ("The work changes as well", len(names))):
        print(f"\n{title}:\n")
        print("\n".join(sheet([best(results, first) for results in runs], names)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
