"""The search, with a measurer that has a fake clock and candidates of known gain."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from lightbox.tools.tune.candidates import Candidate, Change, combined
from lightbox.tools.tune.search import BOTH, Findings, TooLittleTime, search
from lightbox.tools.tune.trials import Goal, Round, Trial
from support.parameters import each

INTRA, WORKERS, THREADS, INTER = (
    Candidate((Change(parameter, ((parameter.upper(), "1"),)),))
    for parameter in ("intra_op_parallelism", "workers", "threads", "inter_op_parallelism")
)
SINGLES = [INTRA, WORKERS, THREADS, INTER]
START, SLICE = 4.0, 0.5

Gain = Callable[[Candidate, Goal], float]


class FakeMeasurer:
    """A machine that slows down over time, with noise of a few per cent in every figure."""

    def __init__(self, gain: Gain, seconds: float = 120.0, noise: float = 0.05, seed: int = 0) -> None:
        self._gain = gain
        self._limit = seconds
        self._noise = noise
        self._random = random.Random(seed)
        self.now = START
        self.failing: set[Candidate] = set()

    def left(self) -> float:
        return self._limit - self.now

    def cost(self, goals: Sequence[Goal], rounds: int) -> float:
        return START + 2 * SLICE * len(goals) * rounds

    def measure(self, candidate: Candidate, goals: Sequence[Goal], rounds: int) -> Trial:
        self.now += START
        trial = Trial(candidate, {goal: [] for goal in goals})
        if candidate in self.failing:
            trial.problem = "it was not ready within 9 s"
            return trial
        for number in range(rounds):
            for goal in goals:
                first = self._figure(goal, 1.0) if number % 2 else None
                measured = self._figure(goal, self._gain(candidate, goal))
                trial.rounds[goal].append(Round(first or self._figure(goal, 1.0), measured))
        return trial

    def _figure(self, goal: Goal, gain: float) -> float:
        self.now += SLICE
        slower = 1 + self.now / 40
        noisy = gain * math.exp(self._random.gauss(0, self._noise)) / slower
        return 0.02 / noisy if goal is Goal.LATENCY else 100 * noisy


def run(measurer: FakeMeasurer) -> Findings:
    return search(measurer, SINGLES, lambda step, trial: None)


def nothing_helps(candidate: Candidate, goal: Goal) -> float:
    return 1.0


def two_help_throughput(candidate: Candidate, goal: Goal) -> float:
    """One change improves both goals, another only throughput, and a third makes both worse."""
    gain = {INTRA: (1.2, 1.3), WORKERS: (1.0, 1.2), THREADS: (0.8, 0.5), INTER: (1.0, 1.0)}
    return math.prod(gain[Candidate((change,))][BOTH.index(goal)] for change in candidate.changes)


@each("seed", range(5))
def test_the_best_is_found_for_each_goal_on_a_machine_that_drifts(seed: int) -> None:
    found = run(FakeMeasurer(two_help_throughput, seed=seed))
    latency, throughput = (set(found.best[goal].candidate.changes) for goal in BOTH)
    assert {*INTRA.changes} <= latency <= {*INTRA.changes, *INTER.changes}
    assert {*INTRA.changes, *WORKERS.changes} <= throughput
    assert not throughput & {*THREADS.changes}
    assert found.best[Goal.LATENCY].gain(Goal.LATENCY) == pytest.approx(1.2, rel=0.08)
    assert found.best[Goal.THROUGHPUT].gain(Goal.THROUGHPUT) == pytest.approx(1.56, rel=0.08)


def test_what_makes_no_difference_is_not_recommended() -> None:
    recommended = [run(FakeMeasurer(nothing_helps, noise=0.1, seed=seed)).best for seed in range(40)]
    assert sum(map(len, recommended)) <= 2  # of 80, each with a probability of 5 % at most


def test_what_brings_nothing_beside_another_is_left_out() -> None:
    def only_one_helps(candidate: Candidate, goal: Goal) -> float:
        return 1.3 if INTRA.changes[0] in candidate.changes else 1.04

    found = run(FakeMeasurer(only_one_helps, noise=0.01))
    assert any(len(trial.candidate.changes) > 1 for trial in found.screens)
    assert {goal: trial.candidate for goal, trial in found.best.items()} == dict.fromkeys(BOTH, INTRA)


def test_what_one_request_cannot_feel_is_not_recommended_for_latency() -> None:
    def workers_help(candidate: Candidate, goal: Goal) -> float:
        return 1.5 if WORKERS.changes[0] in candidate.changes else 1.0

    found = run(FakeMeasurer(workers_help, noise=0.01))
    assert {goal: trial.candidate for goal, trial in found.best.items()} == {Goal.THROUGHPUT: WORKERS}


def test_a_recommendation_rests_on_the_confirmation_alone() -> None:
    found = run(FakeMeasurer(two_help_throughput))
    assert found.confirmations
    assert all(trial in found.confirmations for trial in found.best.values())


@each("seconds", range(30, 400, 10))
def test_it_keeps_within_the_time(seconds: int) -> None:
    measurer = FakeMeasurer(two_help_throughput, seconds)
    found = run(measurer)
    assert measurer.left() >= 0
    assert found.screens
    assert found.possible == len(SINGLES)


def test_in_a_short_time_some_are_left_out_and_the_best_is_still_confirmed() -> None:
    found = run(FakeMeasurer(two_help_throughput, 45))
    assert 1 <= len(found.screens) < len(SINGLES)
    assert found.best[Goal.LATENCY].candidate == INTRA


@each("seconds", range(30, 100, 5))
def test_the_time_that_is_said_to_be_missing_is_enough_for_all(seconds: int) -> None:
    found = run(FakeMeasurer(two_help_throughput, seconds))
    assert (found.missing_seconds > 0) == (found.screen_of(SINGLES[-1]) is None)
    again = run(FakeMeasurer(two_help_throughput, seconds + math.ceil(found.missing_seconds)))
    assert all(again.screen_of(candidate) for candidate in SINGLES)
    assert again.missing_seconds == 0


def test_too_little_time_for_one_candidate_is_reported() -> None:
    with pytest.raises(TooLittleTime) as caught:
        run(FakeMeasurer(two_help_throughput, 20))
    assert run(FakeMeasurer(two_help_throughput, 20 + caught.value.seconds)).screens


def test_a_candidate_that_fails_is_reported_and_not_recommended() -> None:
    measurer = FakeMeasurer(two_help_throughput)
    measurer.failing = {INTRA, combined([INTRA, WORKERS])}
    found = run(measurer)
    assert found.screens[0].problem == "it was not ready within 9 s"
    assert Goal.LATENCY not in found.best
    assert found.best[Goal.THROUGHPUT].candidate == WORKERS
