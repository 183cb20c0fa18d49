"""The output: a line for each trial, and at the end the settings as environment lines, or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from lightbox.tools.tune.candidates import Candidate, Change
from lightbox.tools.tune.search import BOTH, Findings, Step
from lightbox.tools.tune.trials import Goal, Trial

_OTHER = {Goal.LATENCY: Goal.THROUGHPUT, Goal.THROUGHPUT: Goal.LATENCY}


@dataclass(frozen=True)
class Circumstances:
    """The measured setup; ``compared_with`` is the baseline in words, ``the defaults`` or ``the present settings``."""

    model: str
    image: str
    cores: int
    model_server: str
    clients: int
    compared_with: str


def progress(step: Step, trial: Trial, seconds: float) -> str:
    """Return a line about a trial that ended ``seconds`` after the start."""
    verb = "tried" if step == "screen" else "confirmed"
    return f"[{seconds:5.1f} s] {verb} {trial.candidate}: {_outcome(trial)}"


def text(findings: Findings, about: Circumstances, seconds: float, allowed: float) -> str:
    """Return the report: comments, and lines that an environment file can hold; ``allowed`` is ``--seconds``."""
    lines = [
        f"# {about.model}, {about.image}; {about.cores} cores; model server: {about.model_server}",
        f"# {_counts(findings, allowed)} tried in {seconds:.0f} s, each in turn with {about.compared_with}",
    ]
    for goal in BOTH:
        lines += ["", *_recommendation(findings, goal, about)]
    return "\n".join(lines)


def as_json(findings: Findings, about: Circumstances, seconds: float) -> str:
    """Return the report as a JSON object; times in seconds, throughput in responses per second."""
    best = {goal.value: findings.best.get(goal) for goal in BOTH}
    report = {
        **asdict(about),
        "seconds": round(seconds, 1),
        "possible": findings.possible,
        "missing_seconds": math.ceil(max(0.0, findings.missing_seconds)),
        "tried": [_trial_json(trial) for trial in findings.screens],
        "confirmed": [_trial_json(trial) for trial in findings.confirmations],
        "best": {goal: trial and trial.candidate.environ for goal, trial in best.items()},
    }
    return json.dumps(report, indent=1)


def _outcome(trial: Trial) -> str:
    if trial.problem is not None:
        return trial.problem
    measured = [goal for goal in BOTH if trial.rounds.get(goal)]
    parts = [f"{_figure(goal, trial.candidate_median(goal))} ({trial.gain(goal):.2f}x)" for goal in measured]
    return ", ".join(parts) or "no time was left"


def _counts(findings: Findings, allowed: float) -> str:
    singles = sum(len(trial.candidate.changes) == 1 for trial in findings.screens)
    together = len(findings.screens) - singles
    left_out = findings.possible - singles
    wanted = math.ceil(allowed + max(0.0, findings.missing_seconds))
    note = f" ({left_out} more left out for lack of time; --seconds {wanted} is enough for all)" if left_out else ""
    return f"{_count(singles, 'candidate')}{note} and {_count(together, 'combination')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _recommendation(findings: Findings, goal: Goal, about: Circumstances) -> Iterator[str]:
    title = "lowest latency" if goal is Goal.LATENCY else f"highest throughput at {about.clients} clients"
    trial = findings.best.get(goal)
    if trial is None:
        yield f"# {title}: {_nothing_better(findings, goal, about)}"
        return
    better = "faster than" if goal is Goal.LATENCY else "that of"
    candidate, baseline = _figure(goal, trial.candidate_median(goal)), _figure(goal, trial.baseline_median(goal))
    yield (
        f"# {title}: {candidate}, {trial.gain(goal):.2f}x {better} {about.compared_with} ({baseline}), "
        f"better in {trial.rounds_won(goal)} of {len(trial.rounds[goal])} rounds"
    )
    yield from _side_effect(findings, trial.candidate, _OTHER[goal])
    for change in trial.candidate.changes:
        if len(trial.candidate.changes) > 1:
            yield from _alone(findings, change, goal)
        yield from (f"{name}={value}" for name, value in change.variables)


def _side_effect(findings: Findings, candidate: Candidate, other: Goal) -> Iterator[str]:
    """Return the change of the other goal in the screening."""
    screen = findings.screen_of(candidate)
    if screen is not None and screen.gain(other):
        candidate_figure, baseline = (
            _figure(other, median_of(other)) for median_of in (screen.candidate_median, screen.baseline_median)
        )
        change = f"{candidate_figure} instead of {baseline}"
        yield f"# {other.value} with it, measured briefly: {change}"


def _alone(findings: Findings, change: Change, goal: Goal) -> Iterator[str]:
    screen = findings.screen_of(Candidate((change,)))
    if screen is not None:
        yield f"# alone {screen.gain(goal):.2f}x:"


def _nothing_better(findings: Findings, goal: Goal, about: Circumstances) -> str:
    trials = findings.screens + findings.confirmations
    figures = [part.baseline for trial in trials for part in trial.rounds.get(goal, [])]
    if not figures:
        return "not known, as no candidate could be measured"
    return f"no better than {about.compared_with} ({_figure(goal, median(figures))})"


def _figure(goal: Goal, value: float) -> str:
    return f"p50 {value * 1000:.1f} ms" if goal is Goal.LATENCY else f"{value:.1f}/s"


def _trial_json(trial: Trial) -> dict[str, Any]:
    goals = {
        goal.value: {
            "gain": round(trial.gain(goal), 4),
            "significantly_better": trial.is_significantly_better(goal),
            "rounds": [{"base": part.baseline, "mine": part.candidate} for part in rounds],
        }
        for goal, rounds in trial.rounds.items()
        if rounds
    }
    return {"settings": trial.candidate.environ, "problem": trial.problem, **goals}
