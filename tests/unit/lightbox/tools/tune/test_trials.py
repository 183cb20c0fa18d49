"""The gain of a candidate, computed from its rounds."""

from __future__ import annotations

import pytest

from lightbox.tools.tune.candidates import Candidate
from lightbox.tools.tune.trials import Goal, Round, Trial
from support.parameters import each


def trial(goal: Goal, *rounds: tuple[float, float]) -> Trial:
    return Trial(Candidate(()), {goal: [Round(*pair) for pair in rounds]})


def test_a_gain_is_above_one_for_less_time_and_for_more_answers() -> None:
    assert trial(Goal.LATENCY, (0.03, 0.02)).gain(Goal.LATENCY) == pytest.approx(1.5)
    assert trial(Goal.THROUGHPUT, (100, 150)).gain(Goal.THROUGHPUT) == pytest.approx(1.5)


def test_what_was_not_measured_or_failed_has_no_gain() -> None:
    assert trial(Goal.LATENCY).gain(Goal.LATENCY) == 0
    assert trial(Goal.LATENCY, (2, 1)).gain(Goal.THROUGHPUT) == 0
    failed = trial(Goal.LATENCY, (2, 1))
    failed.problem = "it ended"
    assert failed.gain(Goal.LATENCY) == 0


@each(
    ("wins", "rounds", "sure"),
    [(5, 5, False), (6, 6, True), (6, 7, False), (8, 9, True), (8, 10, False), (10, 12, True), (21, 30, True)],
)
def test_many_rounds_must_be_won(wins: int, rounds: int, sure: bool) -> None:
    pairs = [(100.0, 130.0)] * wins + [(100.0, 99.0)] * (rounds - wins)
    assert trial(Goal.THROUGHPUT, *pairs).is_significantly_better(Goal.THROUGHPUT) is sure


def test_a_gain_that_is_not_worth_a_setting_is_none_however_sure() -> None:
    assert not trial(Goal.THROUGHPUT, *[(100.0, 102.0)] * 30).is_significantly_better(Goal.THROUGHPUT)


def test_better_than_another_candidate_takes_rounds_that_gain_more_than_it_does() -> None:
    rounds = trial(Goal.THROUGHPUT, *[(100.0, 130.0)] * 8)
    assert rounds.is_significantly_better(Goal.THROUGHPUT, 1.2)
    assert not rounds.is_significantly_better(Goal.THROUGHPUT, 1.28)
    assert rounds.rounds_won(Goal.THROUGHPUT, 1.2) == 8


def test_a_candidate_is_hopeless_when_it_is_for_every_goal() -> None:
    slow = trial(Goal.LATENCY, (1, 2))
    assert slow.hopeless()
    slow.rounds[Goal.THROUGHPUT] = [Round(100, 90)]
    assert not slow.hopeless()
