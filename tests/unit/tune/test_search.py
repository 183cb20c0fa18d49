"""The search, on a bench whose clock is made up and whose candidates are as good as the test says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from tune.candidates import Candidate, Change, combined
from tune.search import BOTH, Findings, TooLittleTime, search
from tune.trials import Goal, Round, Trial

INTRA, WORKERS, THREADS, INTER = (
    Candidate((Change(knob, ((knob.upper(), "1"),)),))
    for knob in ("intra_op_parallelism", "workers", "threads", "inter_op_parallelism")
)
SINGLES = [INTRA, WORKERS, THREADS, INTER]
START, SLICE = 4.0, 0.5

Gain = Callable[[Candidate, Goal], float]


class FakeBench:
    """A machine that becomes slower and slower, with noise of some per cent in every figure."""

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

    def try_out(self, candidate: Candidate, goals: Sequence[Goal], rounds: int) -> Trial:
        self.now += START
        trial = Trial(candidate, {goal: [] for goal in goals})
        if candidate in self.failing:
            trial.problem = "it was not ready within 9 s"
            return trial
        for number in range(rounds):
            for goal in goals:
                base = self._figure(goal, 1.0) if number % 2 else None
                mine = self._figure(goal, self._gain(candidate, goal))
                trial.rounds[goal].append(Round(base or self._figure(goal, 1.0), mine))
        return trial

    def _figure(self, goal: Goal, gain: float) -> float:
        self.now += SLICE
        slower = 1 + self.now / 40
        noisy = gain * math.exp(self._random.gauss(0, self._noise)) / slower
        return 0.02 / noisy if goal is Goal.LATENCY else 100 * noisy


def run(bench: FakeBench) -> Findings:
    return search(bench, SINGLES, lambda step, trial: None)


def nothing_helps(candidate: Candidate, goal: Goal) -> float:
    return 1.0


def two_help_throughput(candidate: Candidate, goal: Goal) -> float:
    """One change helps both goals, another only throughput, a third does harm."""
    gain = {INTRA: (1.2, 1.3), WORKERS: (1.0, 1.2), THREADS: (0.8, 0.5), INTER: (1.0, 1.0)}
    return math.prod(gain[Candidate((change,))][BOTH.index(goal)] for change in candidate.changes)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_is_found_for_each_goal_on_a_machine_that_drifts(seed: int) -> None:
    found = run(FakeBench(two_help_throughput, seed=seed))
    latency, throughput = (set(found.best[goal].candidate.changes) for goal in BOTH)
    assert {*INTRA.changes} <= latency <= {*INTRA.changes, *INTER.changes}
    assert {*INTRA.changes, *WORKERS.changes} <= throughput
    assert not throughput & {*THREADS.changes}
    assert found.best[Goal.LATENCY].gain(Goal.LATENCY) == pytest.approx(1.2, rel=0.08)
    assert found.best[Goal.THROUGHPUT].gain(Goal.THROUGHPUT) == pytest.approx(1.56, rel=0.08)


def test_what_makes_no_difference_is_not_recommended() -> None:
    recommended = [run(FakeBench(nothing_helps, noise=0.1, seed=seed)).best for seed in range(40)]
    assert sum(map(len, recommended)) <= 2  # of 80, each with a chance of 5 % at most


def test_what_brings_nothing_beside_another_is_left_out() -> None:
    def only_one_helps(candidate: Candidate, goal: Goal) -> float:
        return 1.3 if INTRA.changes[0] in candidate.changes else 1.04

    found = run(FakeBench(only_one_helps, noise=0.01))
    assert any(len(trial.candidate.changes) > 1 for trial in found.looks)
    assert {goal: trial.candidate for goal, trial in found.best.items()} == dict.fromkeys(BOTH, INTRA)


def test_what_one_request_cannot_feel_is_not_recommended_for_latency() -> None:
    def workers_help(candidate: Candidate, goal: Goal) -> float:
        return 1.5 if WORKERS.changes[0] in candidate.changes else 1.0

    found = run(FakeBench(workers_help, noise=0.01))
    assert {goal: trial.candidate for goal, trial in found.best.items()} == {Goal.THROUGHPUT: WORKERS}


def test_a_recommendation_rests_on_the_confirmation_alone() -> None:
    found = run(FakeBench(two_help_throughput))
    assert found.confirmations
    assert all(trial in found.confirmations for trial in found.best.values())


@pytest.mark.parametrize("seconds", range(30, 400, 10))
def test_it_keeps_within_the_time(seconds: int) -> None:
    bench = FakeBench(two_help_throughput, seconds)
    found = run(bench)
    assert bench.left() >= 0
    assert found.looks
    assert found.possible == len(SINGLES)


def test_more_time_is_used_for_more_rounds() -> None:
    def rounds(seconds: float) -> tuple[int, int]:
        found = run(FakeBench(two_help_throughput, seconds))
        best = found.best[Goal.LATENCY]
        return len(found.looks[0].rounds[Goal.LATENCY]), len(best.rounds[Goal.LATENCY])

    assert rounds(60) < rounds(120) < rounds(600) == (6, 30)


def test_in_a_short_time_some_are_left_out_and_the_best_is_still_confirmed() -> None:
    found = run(FakeBench(two_help_throughput, 45))
    assert 1 <= len(found.looks) < len(SINGLES)
    assert found.best[Goal.LATENCY].candidate == INTRA


def test_too_little_time_for_one_candidate_is_told() -> None:
    with pytest.raises(TooLittleTime) as caught:
        run(FakeBench(two_help_throughput, 20))
    assert run(FakeBench(two_help_throughput, 20 + caught.value.seconds)).looks


def test_a_candidate_that_fails_is_told_and_not_recommended() -> None:
    bench = FakeBench(two_help_throughput)
    bench.failing = {INTRA, combined([INTRA, WORKERS])}
    found = run(bench)
    assert found.looks[0].problem == "it was not ready within 9 s"
    assert Goal.LATENCY not in found.best
    assert found.best[Goal.THROUGHPUT].candidate == WORKERS


def test_every_trial_is_announced() -> None:
    heard: list[tuple[str, Trial]] = []
    found = search(FakeBench(two_help_throughput), SINGLES, lambda step, trial: heard.append((step, trial)))
    assert heard == [("look", one) for one in found.looks] + [("confirm", one) for one in found.confirmations]
