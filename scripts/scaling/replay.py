"""Replays a load while an autoscaler follows one signal, as Kubernetes' HorizontalPodAutoscaler does."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from scaling.machine import Figures, Work, figures

TICK = 15
"""Seconds between two decisions, and between two scrapes."""
LEAST, MOST = 2, 200
TOLERANCE, STABLE_TICKS, DOWN = 0.1, 300 // TICK, 0.2
"""A change by less is left out; the highest wish of five minutes counts; at most a fifth less in a minute."""
NOISE = 0.05
"""Standard deviation of the rate's logarithm from one tick to the next."""


@dataclass(frozen=True)
class Signal:
    """What the autoscaler reads of a machine, and over how many ticks it is averaged before it arrives."""

    name: str
    read: Callable[[Figures], float]
    ticks: int


SIGNALS = (
    Signal("CPU", lambda seen: seen.cpu, 2),
    Signal("concurrency", lambda seen: seen.concurrency, 4),
    Signal("requests a second", lambda seen: seen.rate, 4),
    Signal("lightbox_saturation", lambda seen: seen.saturation, 1),
    Signal("latency p95", lambda seen: seen.p95, 4),
    Signal("lightbox_saturation and CPU", lambda seen: max(seen.saturation, seen.cpu), 2),
)
"""CPU over 30 s as the metrics server has it; rates, histograms and Knative's stable window over a minute.

With two signals the autoscaler follows the one that wants more machines; here both have the same target.
"""


@dataclass(frozen=True)
class Scenario:
    """Requests a second and the work of each at a tick; at ``lost`` a third of the machines goes."""

    name: str
    ticks: int
    rate: Callable[[int], float]
    work: Callable[[int], Work]
    lost: int = -1


@dataclass(frozen=True)
class Outcome:
    """Of a replay: requests that came, waited, were refused; hours of machines, those that start included."""

    requests: float = 0.0
    waiting: float = 0.0
    refused: float = 0.0
    hours: float = 0.0

    def __add__(self, other: Outcome) -> Outcome:
        """Return the sum of two."""
        return Outcome(
            self.requests + other.requests,
            self.waiting + other.waiting,
            self.refused + other.refused,
            self.hours + other.hours,
        )

    @property
    def bad(self) -> float:
        """Share of the requests that waited for a thread or were refused."""
        return (self.waiting + self.refused) / self.requests


class Fleet:
    """Machines that answer, and ticks at which those that start will."""

    def __init__(self, machines: int, start_ticks: int) -> None:
        self.ready = machines
        self._starting: deque[int] = deque()
        self._start_ticks = start_ticks

    @property
    def paid(self) -> int:
        """Machines that cost money."""
        return self.ready + len(self._starting)

    def tick(self, now: int) -> None:
        """Let those answer that have started."""
        while self._starting and self._starting[0] <= now:
            self._starting.popleft()
            self.ready += 1

    def lose_a_third(self, now: int) -> None:
        """Lose machines; as many others are started at once, which needs no autoscaler."""
        lost = self.ready // 3
        self.ready -= lost
        self.resize(self.paid + lost, now)

    def resize(self, wanted: int, now: int) -> None:
        """Start machines, or end some: first those that have not started."""
        while self.paid < wanted:
            self._starting.append(now + self._start_ticks)
        while self.paid > wanted:
            if self._starting:
                self._starting.pop()
            else:
                self.ready -= 1


class Autoscaler:
    """Wishes for ``ceil(ready * signal / target)`` machines; quickly up, slowly down."""

    def __init__(self, signal: Signal, target: float) -> None:
        self._signal = signal
        self._target = target
        self._seen: deque[float] = deque(maxlen=signal.ticks)
        self._wishes: deque[int] = deque(maxlen=STABLE_TICKS)
        self._paid: deque[int] = deque(maxlen=60 // TICK)

    def decide(self, seen: Figures, fleet: Fleet) -> int:
        """Return how many machines there shall be."""
        self._seen.append(self._signal.read(seen))
        self._paid.append(fleet.paid)
        ratio = fmean(self._seen) / self._target
        wish = fleet.paid if abs(ratio - 1) <= TOLERANCE else math.ceil(fleet.ready * ratio)
        self._wishes.append(min(MOST, max(LEAST, wish)))
        if wish >= fleet.paid:
            return min(self._wishes[-1], max(2 * fleet.paid, fleet.paid + 4))
        return max(min(fleet.paid, max(self._wishes)), int(max(self._paid) * (1 - DOWN)))


def replay(scenario: Scenario, signal: Signal, target: float, cores: int, start_seconds: float, seed: int) -> Outcome:
    """Return what came of a scenario with the autoscaler at ``target``."""
    chance, noise, outcome = random.Random(seed), 0.0, Outcome()  # noqa: S311 - a load, no secret
    fleet = Fleet(_enough(scenario, cores), math.ceil(start_seconds / TICK))
    autoscaler = Autoscaler(signal, target)
    for now in range(scenario.ticks):
        fleet.tick(now)
        if now == scenario.lost:
            fleet.lose_a_third(now)
        noise = 0.8 * noise + 0.6 * chance.gauss(0, NOISE)
        rate = scenario.rate(now) * math.exp(noise)
        seen = figures(_grid(rate / fleet.ready), scenario.work(now), cores)
        requests = rate * TICK
        outcome += Outcome(requests, requests * seen.waiting, requests * seen.refused, fleet.paid * TICK / 3600)
        fleet.resize(autoscaler.decide(seen, fleet), now)
    return outcome


def _enough(scenario: Scenario, cores: int) -> int:
    """Return the machines that the first rate needs at six tenths of the cores."""
    return max(LEAST, math.ceil(scenario.rate(0) * scenario.work(0).cpu / cores / 0.6))


def _grid(rate: float) -> int:
    """Round a rate to steps of half a percent, so that few states are calculated."""
    return round(100 * math.exp(round(math.log(rate) * 200) / 200))


def replay_all(
    scenarios: Sequence[Scenario], signal: Signal, target: float, cores: int, start_seconds: float, seed: int
) -> list[Outcome]:
    """Return the outcome of each scenario."""
    return [replay(scenario, signal, target, cores, start_seconds, seed) for scenario in scenarios]
