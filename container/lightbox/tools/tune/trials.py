"""The result of measuring a candidate: alternating rounds of the baseline and the candidate, and statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from lightbox.tools.tune.candidates import Candidate

CHANCE = 0.025
"""How likely a candidate that is no better may be taken for better; two of them may come this far for each goal."""
LEAST_GAIN = 1.03
"""A smaller gain is not worth a setting, and not distinguishable from two starts of the same settings."""
HOPELESS = 0.75
"""A candidate whose first round is this much worse for every goal is not measured further."""


class Goal(StrEnum):
    """A goal that settings can be best for."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


@dataclass(frozen=True)
class Round:
    """One figure of the baseline and one of the candidate, measured one right after the other.

    Seconds, the median of a request at one client, for latency; responses per second for throughput.
    """

    baseline: float
    candidate: float


@dataclass
class Trial:
    """A candidate's rounds for each goal; ``problem`` is the reason, in a sentence, for an early end."""

    candidate: Candidate
    rounds: dict[Goal, list[Round]] = field(default_factory=dict)
    problem: str | None = None

    def baseline_median(self, goal: Goal) -> float:
        """Return the baseline's median over the rounds."""
        return median(part.baseline for part in self.rounds[goal])

    def candidate_median(self, goal: Goal) -> float:
        """Return the candidate's median over the rounds."""
        return median(part.candidate for part in self.rounds[goal])

    def gain(self, goal: Goal) -> float:
        """Return how many times better the candidate is, 0 when it was not measured or failed."""
        if self.problem is not None or not self.rounds.get(goal):
            return 0.0
        return _gain(goal, Round(self.baseline_median(goal), self.candidate_median(goal)))

    def rounds_won(self, goal: Goal, than: float = 1.0) -> int:
        """Return in how many rounds the candidate gained more than ``than``."""
        return sum(_gain(goal, part) > than for part in self.rounds[goal])

    def is_significantly_better(self, goal: Goal, than: float = 1.0) -> bool:
        """Return whether more is gained than ``than``, enough to be worth having, and with little doubt left.

        A sign test: equal settings win half of the rounds each, and this many with a chance of at most CHANCE.
        """
        if self.gain(goal) < than * LEAST_GAIN:
            return False
        rounds = len(self.rounds[goal])
        as_many = sum(math.comb(rounds, wins) for wins in range(self.rounds_won(goal, than), rounds + 1))
        return as_many <= CHANCE * (1 << rounds)

    def hopeless(self) -> bool:
        """Return whether every goal is out of reach."""
        return all(self.gain(goal) < HOPELESS for goal in self.rounds)


def _gain(goal: Goal, part: Round) -> float:
    return part.baseline / part.candidate if goal is Goal.LATENCY else part.candidate / part.baseline
