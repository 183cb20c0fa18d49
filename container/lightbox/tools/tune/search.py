"""The search: screen every single change, then the best together, then confirm the best with fresh rounds.

Time is shared equally within a step. Screening only ranks; recommendations are based on the confirmation alone, so that
a candidate's luck in the screening does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lightbox.tools.tune.candidates import Candidate, combined
from lightbox.tools.tune.trials import LEAST_GAIN, Goal, Trial

BOTH = tuple(Goal)
SCREENING_SHARE = 0.5
"""Of the time that is left when the baseline is up, for the single changes."""
MOST_SCREEN_ROUNDS, LEAST_ROUNDS, MOST_ROUNDS = 6, 6, 30
"""Rounds of screening at most; of a confirmation at least (fewer can prove nothing) and at most."""

Step = Literal["screen", "confirm"]


class TooLittleTime(Exception):
    """Not one candidate can be measured; ``seconds`` more are needed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:.0f} s more are needed to measure one candidate")
        self.seconds = seconds


class Measurer(Protocol):
    """Measures candidates against the baseline within a given time."""

    def left(self) -> float:
        """Return the seconds that are left."""
        ...

    def cost(self, goals: Sequence[Goal], rounds: int) -> float:
        """Return the seconds that a trial is expected to take."""
        ...

    def measure(self, candidate: Candidate, goals: Sequence[Goal], rounds: int) -> Trial:
        """Measure a candidate and the baseline in turn; fewer rounds when time runs out or the candidate fails."""
        ...


Announce = Callable[[Step, Trial], None]


@dataclass
class Findings:
    """The result of a search; ``best`` holds the confirmation of the best candidate of each goal, if there is one.

    ``missing_seconds`` is how much more time would let all single changes be measured, 0 where all were.
    """

    possible: int
    screens: list[Trial] = field(default_factory=list)
    confirmations: list[Trial] = field(default_factory=list)
    best: dict[Goal, Trial] = field(default_factory=dict)
    missing_seconds: float = 0.0

    def screen_of(self, candidate: Candidate) -> Trial | None:
        """Return the screening of a candidate, None when there was none."""
        return next((trial for trial in self.screens if trial.candidate == candidate), None)


def search(measurer: Measurer, singles: Sequence[Candidate], announce: Announce) -> Findings:
    """Find the best candidate for each goal; ``announce`` gets each trial. Raises TooLittleTime."""
    return _Search(measurer, announce, Findings(len(singles))).run(singles)


class _Search:
    def __init__(self, measurer: Measurer, announce: Announce, findings: Findings) -> None:
        self._measurer = measurer
        self._announce = announce
        self._findings = findings

    @property
    def _reserve(self) -> float:
        """Seconds that confirming a candidate for each goal takes at least."""
        return sum(self._measurer.cost((goal,), LEAST_ROUNDS) for goal in BOTH)

    def run(self, singles: Sequence[Candidate]) -> Findings:
        """Take all steps."""
        missing = self._reserve + self._measurer.cost(BOTH, 1) - self._measurer.left()
        if missing > 0:
            raise TooLittleTime(missing)
        remaining = self._measurer.left()
        share = min(SCREENING_SHARE * remaining / len(singles), remaining - self._reserve)
        rounds = self._fitting(share, BOTH, 1, MOST_SCREEN_ROUNDS)
        for candidate in singles:
            # The best ones together promise more than the last one alone.
            kept = self._measurer.cost(BOTH, rounds) if self._findings.screens else 0.0
            self._screen(candidate, rounds, kept)
        if len(self._findings.screens) < len(singles):
            self._findings.missing_seconds = self._wanted(len(singles)) - remaining
        for candidate in [self._helpful_together(goal) for goal in BOTH]:
            if len(candidate.changes) > 1 and self._findings.screen_of(candidate) is None:
                self._screen(candidate, rounds)
        self._confirm(self._finalists())
        self._choose()
        return self._findings

    def _wanted(self, candidates: int) -> float:
        """Return the seconds in which each of several candidates has a round, as far as is known by now."""
        one, reserve = self._measurer.cost(BOTH, 1), self._reserve
        shared = max(candidates * one, reserve * candidates / max(1, candidates - 1)) / SCREENING_SHARE
        return max(shared, (candidates + 1) * one + reserve)

    def _screen(self, candidate: Candidate, rounds: int, kept: float = 0.0) -> None:
        """Measure a candidate for both goals, unless that takes the confirmation's time or the ``kept`` seconds."""
        if self._measurer.left() - self._measurer.cost(BOTH, rounds) >= self._reserve + kept:
            trial = self._measurer.measure(candidate, BOTH, rounds)
            self._findings.screens.append(trial)
            self._announce("screen", trial)

    def _ranked(self, goal: Goal) -> list[Candidate]:
        """Return the candidates that seem to help and can, the best first."""
        screens = [
            trial for trial in self._findings.screens if goal is Goal.THROUGHPUT or trial.candidate.affects_one_client
        ]
        helpful = [trial for trial in screens if trial.gain(goal) >= LEAST_GAIN]
        return [trial.candidate for trial in sorted(helpful, key=lambda trial: -trial.gain(goal))]

    def _helpful_together(self, goal: Goal) -> Candidate:
        return combined([candidate for candidate in self._ranked(goal) if len(candidate.changes) == 1])

    def _finalists(self) -> dict[Candidate, list[Goal]]:
        """Return the candidates to confirm for each goal: the best one, then its best or next single change."""
        finalists: dict[Candidate, list[Goal]] = {}
        ranked = {goal: self._ranked(goal) for goal in BOTH}
        seconds = {goal: [one for one in ranked[goal][1:] if len(one.changes) == 1] for goal in BOTH}
        for row in (ranked, seconds):
            for goal in BOTH:
                for candidate in row[goal][:1]:
                    finalists.setdefault(candidate, []).append(goal)
        return finalists

    def _confirm(self, finalists: dict[Candidate, list[Goal]]) -> None:
        waiting = list(finalists.items())
        while waiting and sum(self._measurer.cost(goals, LEAST_ROUNDS) for _, goals in waiting) > self._measurer.left():
            waiting.pop()
        while waiting:
            share = self._measurer.left() / len(waiting)
            candidate, goals = waiting.pop(0)
            rounds = self._fitting(share, goals, LEAST_ROUNDS, MOST_ROUNDS)
            trial = self._measurer.measure(candidate, goals, rounds)
            self._findings.confirmations.append(trial)
            self._announce("confirm", trial)

    def _fitting(self, seconds: float, goals: Sequence[Goal], least: int, most: int) -> int:
        """Return the number of rounds for a trial of this many seconds."""
        return next((n for n in range(most, least, -1) if self._measurer.cost(goals, n) <= seconds), least)

    def _choose(self) -> None:
        """Take the candidate with the fewest changes, and one with more only when it is surely better than that."""
        by_size = sorted(self._findings.confirmations, key=lambda trial: len(trial.candidate.changes))
        for goal in BOTH:
            for trial in by_size:
                best = self._findings.best.get(goal)
                if trial.is_significantly_better(goal, best.gain(goal) if best else 1.0):
                    self._findings.best[goal] = trial
