"""Measures candidates: the baseline runs all the time, a candidate beside it, and both get requests in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from typing_extensions import override

from lightbox.tools.harness.server_process import ServerFailed
from lightbox.tools.harness.stack import Stack
from lightbox.tools.tune.candidates import Candidate
from lightbox.tools.tune.load import Load, LoadFailed
from lightbox.tools.tune.measured_stack import LOG_BYTES, STOP_SECONDS, reason, start
from lightbox.tools.tune.search import Measurer
from lightbox.tools.tune.trials import Goal, Round, Trial

WARM_SECONDS = 0.5
QUICK_STOP_SECONDS = 1.0
"""Seconds that a stop of a stack takes; as many are kept for the baseline's own stop."""
_LEAST_SECONDS = {Goal.LATENCY: 0.3, Goal.THROUGHPUT: 0.5}
"""Seconds of requests to a stack in one round, for fast requests."""
_LEAST_CALLS = {Goal.LATENCY: 3, Goal.THROUGHPUT: 1.5}
"""Calls of each client in one round, where requests take long."""
_MARGIN = 1.1
"""How much longer than planned asking takes: until the last response is there."""
_GRACE_SECONDS, _PATIENCE = 4, 5
"""A candidate is given up if its response takes this many times as long as the baseline's, plus some seconds."""


class CannotServe(Exception):
    """The model cannot be served with the present settings; the message is one sentence."""


@dataclass(frozen=True)
class Request:
    """The request: the body, and the number of concurrent clients for throughput."""

    body: bytes
    clients: int


@contextmanager
def open_measurer(environ: Mapping[str, str], request: Request, seconds: float) -> Iterator[StackMeasurer]:
    """Start the baseline, with ``environ`` over this process's own variables, and measure beside it.

    ``seconds`` is how long all of it may take. Raises CannotServe.
    """
    deadline = time.monotonic() + seconds
    try:
        with _serving(environ, request, seconds, seconds) as (stack, load, start_seconds):
            yield StackMeasurer(environ, request, deadline, stack, load, start_seconds)
    except ServerFailed as error:
        raise CannotServe(reason(error)) from None
    except LoadFailed as error:
        raise CannotServe(str(error)) from None


class StackMeasurer(Measurer):
    """Starts a stack for each candidate, and measures the baseline's in turn with it."""

    def __init__(
        self,
        environ: Mapping[str, str],
        request: Request,
        deadline: float,
        baseline: Stack,
        baseline_load: Load,
        start_seconds: float,
    ) -> None:
        self._environ = environ
        self._request = request
        self._deadline = deadline
        self._baseline = baseline
        self._baseline_load = baseline_load
        self._start_seconds = start_seconds + WARM_SECONDS
        call = baseline_load.latency(_LEAST_SECONDS[Goal.LATENCY])
        turn = request.clients / baseline_load.throughput(_LEAST_SECONDS[Goal.THROUGHPUT])
        self._timeout = _GRACE_SECONDS + _PATIENCE * (call + turn)
        self._slices = {
            goal: max(_LEAST_SECONDS[goal], _LEAST_CALLS[goal] * one)
            for goal, one in ((Goal.LATENCY, call), (Goal.THROUGHPUT, turn))
        }

    @override
    def left(self) -> float:
        return self._deadline - QUICK_STOP_SECONDS - time.monotonic()

    @override
    def cost(self, goals: Sequence[Goal], rounds: int) -> float:
        return (
            self._start_seconds + QUICK_STOP_SECONDS + rounds * sum(_MARGIN * 2 * self._slices[goal] for goal in goals)
        )

    @override
    def measure(self, candidate: Candidate, goals: Sequence[Goal], rounds: int) -> Trial:
        # Raises CannotServe when the baseline stops answering.
        trial = Trial(candidate, {goal: [] for goal in goals})
        environ = {**self._environ, **candidate.environ}
        began = time.monotonic()
        try:
            with _serving(environ, self._request, self.left(), self._timeout) as (stack, load, _):
                self._start_seconds = max(self._start_seconds, time.monotonic() - began)
                for number in range(rounds):
                    self._round(trial, load, number)
                    stack.shorten_log(LOG_BYTES)
                    self._baseline.shorten_log(LOG_BYTES)
                    if number == 0 and trial.hopeless():
                        break
        except ServerFailed as error:
            trial.problem = reason(error)
        except LoadFailed as error:
            trial.problem = str(error)
        return trial

    def _round(self, trial: Trial, load: Load, number: int) -> None:
        """Measure both for each goal. The order alternates, so that a drift of the machine favours neither."""
        for goal, rounds in trial.rounds.items():
            if self.left() < QUICK_STOP_SECONDS + _MARGIN * 2 * self._slices[goal]:
                return
            first = self._ask_baseline(goal) if number % 2 else None
            candidate = self._ask(load, goal)
            rounds.append(Round(first or self._ask_baseline(goal), candidate))

    def _ask_baseline(self, goal: Goal) -> float:
        try:
            return self._ask(self._baseline_load, goal)
        except LoadFailed as error:
            raise CannotServe(f"it stopped answering: {error}") from None

    def _ask(self, load: Load, goal: Goal) -> float:
        seconds = self._slices[goal]
        return load.latency(seconds) if goal is Goal.LATENCY else load.throughput(seconds)


@contextmanager
def _serving(
    environ: Mapping[str, str], request: Request, seconds: float, timeout: float
) -> Iterator[tuple[Stack, Load, float]]:
    """Start a stack that is ready and warm within ``seconds``; also yield the seconds of its start.

    A response may take ``timeout`` seconds.
    """
    stack = start(environ)
    try:
        start_seconds = stack.until_ready(seconds)
        with closing(Load(stack.port, request.body, request.clients, timeout)) as load:
            load.throughput(WARM_SECONDS)
            yield stack, load, start_seconds
    finally:
        stack.close(STOP_SECONDS)
