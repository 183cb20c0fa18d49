"""Decides by a history alone whether a server kept its word: nothing lost, wrong or late, no lie, no growth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from math import inf
from statistics import fmean, linear_regression

from faults.answers import Answer, is_same
from faults.history import Line

CLOSING_SECONDS = 15.0
"""After a fault, what is left of nginx closes its idle connections within that, on a busy machine too: a request that
reuses one may meet its end."""
SILENT_SECONDS = 5.0
"""Longer than that, /ping must not be 200 while nothing is answered; it counts anew from a /ping that was not."""
QUIET_SECONDS, MOST_GROWTH = 600.0, 0.02
"""In so many seconds without a fault memory must not grow by more than this part, the first tenth apart."""
SUPERVISOR, PING = "supervisor", "ping"
"""The way of requests that no model answers, and the name of one."""
OF_MODEL = '"OriginalStatusCode":5'
"""In SageMaker's 424: the status of the container was 5xx."""
SENT_IN_PART = ("not connected", "not sent")
"""Ends of requests that no server can have accepted."""


class Kind(StrEnum):
    """A kind of broken promise."""

    LOST = "lost"
    WRONG = "wrong"
    LATE = "late"
    BARE = "5xx without Retry-After"
    LIE = "/ping 200 in silence"
    GROWTH = "memory"
    ENDED = "ended unasked"
    STUCK = "not recovered"


@dataclass(frozen=True)
class Finding:
    """A broken promise, at a time of the history's."""

    kind: Kind
    at: float
    text: str


@dataclass
class Fault:
    """A fault; ``over``, ``back`` and ``well`` are infinite until it is."""

    line: Line
    over: float = inf
    back: float = inf
    well: float = inf
    failed: float = -inf
    """When the last good request began that failed after it."""
    ended: Sequence[str] = ()

    @property
    def recovery(self) -> float:
        """Seconds from its end until all went well."""
        return max(self.back, self.failed) - self.over if self.well < inf else inf


@dataclass
class Verdict:
    """The sums of histories, and what was found in them; ``runs`` are their dates and commits."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    growth: dict[str, float] = field(default_factory=dict)
    forbidden: dict[str, str] = field(default_factory=dict)
    runs: set[tuple[str, str]] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Add those of another history."""
        self.counts.update(other.counts)
        self.faults += other.faults
        for name, part in other.growth.items():
            self.growth[name] = max(part, self.growth.get(name, part))
        self.forbidden |= other.forbidden
        self.runs |= other.runs
        self.findings += other.findings


def is_good(sent: Line) -> bool:
    """Return whether a request must be answered with 200 by a model."""
    return sent["expected"] == [200] and sent["like"] is not None


class Answers:
    """The answers of a history, and those at rest."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._at_rest: dict[str, str] = {}
        self._same: dict[tuple[str, str], bool] = {}

    def take(self, line: Line) -> None:
        """Note a line with an answer."""
        if "rest" in line:
            self._at_rest[line["rest"]] = line["answer"]
        elif "text" in line:
            self._answers[line["answer"]] = Answer(line["text"], line["numbers"])

    def fault_of(self, sent: Line, came: Line) -> str:
        """Return what is wrong with a response whose status is the expected one, "" if nothing."""
        if came["of"] not in (None, sent["sent"]):
            return f"the answer of request {came['of']}"
        if sent["like"] is None or came["status"] != 200:
            return ""
        pair = (self._at_rest[sent["like"]], came["answer"])
        if pair not in self._same:
            self._same[pair] = is_same(*(self._answers[key] for key in pair))
        return "" if self._same[pair] else f"answer {pair[1]}, at rest {pair[0]}"


def check(lines: Iterable[Line]) -> Verdict:
    """Return the verdict on one history."""
    reading = _Reading()
    for line in lines:
        reading.take(line)
    return reading.verdict()


class _Reading:
    def __init__(self) -> None:
        self._answers = Answers()
        self._open: dict[int, Line] = {}
        self._faults: dict[int, Fault] = {}
        self._verdict = Verdict()
        self._right_at, self._failing_from, self._lied = -inf, inf, False
        self._ping_bad_at = -inf
        self._quiet: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        self._ended = False
        self._patience = 1.0

    def take(self, line: Line) -> None:
        match line:
            case {"sent": number}:
                self._open[number] = line
            case {"came": number}:
                self._judge(self._open.pop(number), line)
            case {"fault": _} | {"over": _} | {"back": _} | {"well": _}:
                self._take_of_fault(line)
            case {"left": True}:
                self._verdict.counts["left by their caller"] += 1
            case {"forbidden": name}:
                self._verdict.forbidden[name] = line["why"]
            case {"memory": sizes}:
                for name, size in sizes.items():
                    self._quiet[name].append((line["at"], size))
            case {"run": facts}:
                self._patience = facts.get("patience", 1.0)
                self._verdict.runs.add((date.fromtimestamp(line["at"]).isoformat(), facts["commit"]))
            case {"end": code}:
                self._ended = True
                if code or line["left"]:
                    self._find(Kind.STUCK, line["at"], {"name": "SIGTERM"}, f"exit code {code}, left: {line['left']}")
            case _:
                self._answers.take(line)

    def _take_of_fault(self, line: Line) -> None:
        match line:
            case {"fault": number}:
                self._end_of_quiet()
                self._faults[number] = Fault(line)
            case {"over": number}:
                self._faults[number].over = line["at"]
            case {"back": number}:
                self._faults[number].back = line["at"]
            case {"well": number}:
                fault = self._faults[number]
                fault.well, fault.ended = line["at"], line["ended"]
                self._quiet.clear()
                if others := set(fault.ended) - set(fault.line["ends"]):
                    self._find(Kind.ENDED, line["at"], fault.line, ", ".join(sorted(others)))

    def verdict(self) -> Verdict:
        self._end_of_quiet()
        # Without the end the callers were stopped: they no longer waited.
        for sent in self._open.values():
            self._verdict.counts["requests"] += 1
            if self._ended:
                self._verdict.counts["accepted"] += 1
                self._find(Kind.LOST, sent["at"], sent, "no answer")
            else:
                self._verdict.counts["open when the run was killed"] += 1
        for fault in self._faults.values():
            if fault.well == inf and self._ended:
                self._find(Kind.STUCK, fault.line["at"], fault.line, "requests went on failing")
        self._verdict.faults = [fault for fault in self._faults.values() if fault.well < inf or self._ended]
        return self._verdict

    def _find(self, kind: Kind, at: float, line: Line, text: str) -> None:
        self._verdict.findings.append(Finding(kind, at, f"{line['name']}: {text}"))

    def _judge(self, sent: Line, came: Line) -> None:
        counts, end = self._verdict.counts, came.get("end")
        counts["requests"] += 1
        counts["accepted"] += end not in SENT_IN_PART
        is_right = False
        if end is None:
            is_right = self._judge_response(sent, came)
        elif end in sent["ends"] or self._is_cut(sent, came):
            counts[end] += 1
        else:
            self._find(Kind.LOST, came["at"], sent, f"{end}: {came['detail']}")
        if came["at"] - sent["at"] > self._patience * sent["limit"]:
            self._find(Kind.LATE, came["at"], sent, f"after {came['at'] - sent['at']:.1f} s")
        if sent["via"] == SUPERVISOR:
            if sent["name"] == PING:
                self._look_at_ping(sent, came)
        elif is_right and came["status"] == 200:
            self._right_at, self._failing_from, self._lied = came["at"], inf, False
        elif is_good(sent):
            self._note_failure(sent, came)

    def _judge_response(self, sent: Line, came: Line) -> bool:
        status = came["status"]
        self._verdict.counts[str(status) if status in (200, 503) or status > 503 else f"{status // 100}xx"] += 1
        if status in sent["expected"]:
            if wrong := self._answers.fault_of(sent, came):
                self._find(Kind.WRONG, came["at"], sent, wrong)
            return not wrong
        if any(status in fault.line["may"] for fault in self._in_force(sent["at"], came["at"])):
            return False
        if status >= 500:
            if status != 503 or not came["retry"]:
                self._find(Kind.BARE, came["at"], sent, f"status {status}: {came['detail']}")
        elif not came["retry"]:
            kind = Kind.BARE if OF_MODEL in came["detail"] else Kind.WRONG
            self._find(kind, came["at"], sent, f"status {status}: {came['detail']}")
        return False

    def _in_force(self, since: float, until: float) -> list[Fault]:
        recent = list(self._faults.values())[-20:]
        return [fault for fault in recent if fault.line["at"] <= until and since <= fault.over]

    def _is_cut(self, sent: Line, came: Line) -> bool:
        """Return whether the connection met a fault that may end it."""
        since = sent["at"] - CLOSING_SECONDS if came["reused"] else sent["at"]
        return any(sent["via"] in fault.line["cuts"] for fault in self._in_force(since, came["at"]))

    def _note_failure(self, sent: Line, came: Line) -> None:
        self._failing_from = min(self._failing_from, max(sent["at"], self._right_at))
        started = [fault for fault in self._faults.values() if fault.line["at"] <= came["at"]]
        if started:
            started[-1].failed = max(started[-1].failed, sent["at"])

    def _look_at_ping(self, ping: Line, came: Line) -> None:
        if came.get("status") != 200:
            if came.get("status") == 503:
                self._ping_bad_at = came["at"]
            return
        waiting = next((sent["at"] for sent in self._open.values() if is_good(sent)), inf)
        since = max(min(self._failing_from, max(waiting, self._right_at)), self._ping_bad_at)
        if ping["at"] - since > self._patience * SILENT_SECONDS and not self._lied:
            self._lied = True
            self._find(Kind.LIE, ping["at"], ping, f"nothing was answered for {ping['at'] - since:.1f} s")

    def _end_of_quiet(self) -> None:
        for name, samples in self._quiet.items():
            seconds = samples[-1][0] - samples[0][0]
            if seconds < QUIET_SECONDS:
                continue
            times, sizes = zip(*samples[len(samples) // 10 :], strict=True)
            slope = linear_regression(times, sizes).slope
            growth = slope * (times[-1] - times[0]) / fmean(sizes[: max(1, len(sizes) // 9)])
            self._verdict.growth[name] = max(growth, self._verdict.growth.get(name, growth))
            if growth > MOST_GROWTH:
                text = f"{growth:.1%} in {seconds:.0f} s"
                self._verdict.findings.append(Finding(Kind.GROWTH, samples[-1][0], f"{name}: {text}"))
        self._quiet.clear()
