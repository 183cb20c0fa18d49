"""One machine as a queue: how full it is, who waits and who is refused, at a rate that holds for seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

THREADS, WAITING = 8, 32
"""SAGEMAKER_GUNICORN_THREADS and LIGHTBOX_MAX_WAITING of each worker, by default; a worker for each core."""


@dataclass(frozen=True)
class Work:
    """What a request takes: seconds of a core, and seconds in which it waits for another service in its thread."""

    cpu: float
    elsewhere: float = 0.0


@dataclass(frozen=True)
class Figures:
    """Of one machine. Shares are of the requests that came; ``rate`` is of answers, a second; ``p95`` in seconds."""

    cpu: float
    concurrency: float
    rate: float
    saturation: float
    p95: float
    waiting: float
    refused: float


@cache
def figures(arrivals: int, work: Work, cores: int) -> Figures:
    """Return the steady state at ``arrivals`` hundredths of a request a second.

    Requests come at random (Poisson), the time they take is random (exponential), as many are in progress as there are
    slots, others wait, and beyond the admission bound they are refused: a birth-death process.
    """
    slots, bound, rate = cores * THREADS, cores * (THREADS + WAITING), arrivals / 100
    chances = [1.0]
    for number in range(1, bound + 1):
        chances.append(chances[-1] * rate / _speed(min(number, slots), work, cores))
        if chances[-1] > 1e200:
            chances = [chance / chances[-1] for chance in chances]
    total = sum(chances)
    chances = [chance / total for chance in chances]
    answered = rate * (1 - chances[bound])
    return Figures(
        cpu=min(1.0, answered * work.cpu / cores),
        concurrency=sum(number * chance for number, chance in enumerate(chances)),
        rate=answered,
        saturation=sum(min(1.0, number / slots) * chance for number, chance in enumerate(chances)),
        p95=_p95(chances, work, slots, cores),
        waiting=sum(chances[slots:bound]),
        refused=chances[bound],
    )


def _speed(in_progress: int, work: Work, cores: int) -> float:
    """Return the requests that end each second: the cores bound them, or each takes as long as it does alone."""
    alone = in_progress / (work.cpu + work.elsewhere)
    return min(alone, cores / work.cpu)


def _p95(chances: list[float], work: Work, slots: int, cores: int) -> float:
    """Return the seconds of a request that comes where 95 % find no more before them."""
    found, chance = 0, chances[0]
    while chance < 0.95 and found < len(chances) - 2:
        found += 1
        chance += chances[found]
    return (found + 1) / _speed(min(found + 1, slots), work, cores)
