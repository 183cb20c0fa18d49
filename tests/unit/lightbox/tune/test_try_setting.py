"""The estimated time of a measurement: rounds have a minimum length, even on a fast machine."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from lightbox.harness.stack import Stack
from lightbox.tune.candidates import Candidate, Change
from lightbox.tune.command import LEAST_SECONDS
from lightbox.tune.load import Load
from lightbox.tune.search import TooLittleTime, search
from lightbox.tune.trials import Goal, Trial
from lightbox.tune.try_setting import Request, StackMeasurer

SINGLES = [Candidate((Change("workers", (("SAGEMAKER_GUNICORN_WORKERS", "1"),)),))]

NOW = 1000.0


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, so that the estimate does not depend on its own run time."""
    monkeypatch.setattr("lightbox.tune.try_setting.time", SimpleNamespace(monotonic=lambda: NOW))


class LoadOf:
    """A stack whose requests take ``call`` seconds. It serves all clients in parallel."""

    def __init__(self, call: float, clients: int) -> None:
        self._call = call
        self._clients = clients

    def latency(self, seconds: float) -> float:
        return self._call

    def throughput(self, seconds: float) -> float:
        return self._clients / self._call


class Unstarted(StackMeasurer):
    """A measurer that starts no candidate: each trial has zero rounds."""

    def measure(self, candidate: Candidate, goals: Sequence[Goal], rounds: int) -> Trial:
        return Trial(candidate, {goal: [] for goal in goals})


def measurer(call: float, seconds: float, start_seconds: float = 0.0, clients: int = 8) -> StackMeasurer:
    """Return a measurer with ``seconds`` left, whose baseline took ``start_seconds`` to start."""
    load = cast(Load, LoadOf(call, clients))
    return Unstarted({}, Request(b"", clients), NOW + seconds, cast(Stack, None), load, start_seconds)


@pytest.mark.parametrize("call", [1e-9, 0.001, 0.1, 1.0])
def test_the_least_time_that_may_be_given_never_suffices(call: float) -> None:
    with pytest.raises(TooLittleTime):
        search(measurer(call, LEAST_SECONDS), SINGLES, lambda step, trial: None)


@pytest.mark.parametrize("call", [1e-9, 0.001, 0.1, 1.0, 10.0])
def test_what_is_said_to_be_needed_suffices(call: float) -> None:
    with pytest.raises(TooLittleTime) as caught:
        search(measurer(call, LEAST_SECONDS), SINGLES, lambda step, trial: None)
    # One second more, because sums are rounded.
    found = search(measurer(call, LEAST_SECONDS + caught.value.seconds + 1), SINGLES, lambda step, trial: None)
    assert [trial.candidate for trial in found.screens] == SINGLES


def test_slow_requests_and_slow_starts_need_more_time() -> None:
    def missing(call: float, start_seconds: float) -> float:
        with pytest.raises(TooLittleTime) as caught:
            search(measurer(call, LEAST_SECONDS, start_seconds), SINGLES, lambda step, trial: None)
        return caught.value.seconds

    quick = missing(1e-9, 0.0)
    # One trial for each goal and one for both, with 6, 6 and 1 rounds: at least 15 calls for each round of both.
    assert missing(1.0, 0.0) > quick + 50
    assert missing(1e-9, 30.0) == pytest.approx(quick + 90, abs=10)
