"""The checker finds ten faults in histories, and none in one without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults.answers import Form, read
from faults.checker import CLOSING_SECONDS, Kind, Verdict, check
from faults.history import History, Line, lines
from faults.report import report, row

REST: list[Line] = [
    {"answer": "a", "text": "[]", "numbers": [1.0, 2.0]},
    {"answer": "b", "text": "[]", "numbers": [1.0, 3.0]},
    {"answer": "near a", "text": "[]", "numbers": [1.00001, 2.0]},
    {"rest": "one", "answer": "a"},
]
END: Line = {"end": 0, "left": [], "at": 1000.0}
KILL: Line = {"fault": 90, "name": "killed", "cuts": ["HTTP"], "ends": ["worker"], "may": [507], "at": 100.0}
WELL: list[Line] = [{"over": 90, "at": 100.5}, {"back": 90, "at": 101}, {"well": 90, "ended": ["worker"], "at": 105}]


def sent(number: int, at: float, **more: Any) -> Line:
    usual = {"name": "one", "via": "HTTP", "expected": [200], "like": "one", "ends": [], "limit": 45.0}
    return {"sent": number, "at": at, **usual, **more}


def came(number: int, at: float, **more: Any) -> Line:
    usual = {"answer": "a"} if more.get("status", 200) == 200 else {"answer": None}
    return {
        "came": number,
        "at": at,
        "status": 200,
        "retry": False,
        "of": number,
        "reused": False,
        "detail": "",
        **usual,
        **more,
    }


def ended(number: int, at: float, end: str = "cut", reused: bool = False) -> Line:
    return {"came": number, "at": at, "end": end, "reused": reused, "detail": ""}


def ping(number: int, at: float, status: int = 200) -> list[Line]:
    came_back = came(number, at + 0.01, status=status, retry=True, answer=None)
    return [sent(number, at, name="ping", via="supervisor", like=None), came_back]


def kinds(*found: Line, last: Line = END) -> list[Kind]:
    """Return what is found in a history with these lines, whose requests are all answered without them."""
    return [finding.kind for finding in check([*REST, sent(1, 1.0), came(1, 2.0), *found, last]).findings]


def test_what_is_right_or_refused_politely_is_no_fault() -> None:
    assert kinds(sent(2, 3.0), came(2, 4.0, answer="near a")) == []
    assert kinds(sent(2, 3.0), came(2, 4.0, status=503, retry=True)) == []
    assert kinds(sent(2, 3.0, expected=[400], like=None), came(2, 4.0, status=400)) == []
    assert kinds(sent(2, 3.0, ends=["cut"]), ended(2, 4.0)) == []
    assert kinds(KILL, sent(2, 100.2), came(2, 101.0, status=507), *WELL) == []


@pytest.mark.parametrize(
    ("kind", "planted"),
    [
        pytest.param(Kind.LOST, [sent(2, 3.0)], id="no answer"),
        pytest.param(Kind.LOST, [sent(2, 3.0), ended(2, 4.0)], id="a cut connection"),
        pytest.param(Kind.WRONG, [sent(2, 3.0), came(2, 4.0, answer="b")], id="another number"),
        pytest.param(Kind.WRONG, [sent(2, 3.0), came(2, 4.0, of=1)], id="an answer repeated or swapped"),
        pytest.param(Kind.WRONG, [sent(2, 3.0), came(2, 4.0, status=404)], id="refused without a reason"),
        pytest.param(Kind.WRONG, [sent(2, 3.0, expected=[400]), came(2, 4.0)], id="accepted without a reason"),
        pytest.param(Kind.LATE, [sent(2, 3.0), came(2, 48.1)], id="late"),
        pytest.param(Kind.BARE, [sent(2, 3.0), came(2, 4.0, status=503)], id="503 without Retry-After"),
        pytest.param(Kind.BARE, [sent(2, 3.0), came(2, 4.0, status=500, retry=True)], id="500"),
        pytest.param(Kind.LIE, [sent(2, 3.0), *ping(3, 8.1), came(2, 9.0)], id="ping while a request waits"),
        pytest.param(
            Kind.LIE,
            [sent(2, 3.0), came(2, 3.5, status=503, retry=True), *ping(3, 8.1), *ping(4, 9.1)],
            id="ping while requests are refused",
        ),
        pytest.param(Kind.ENDED, [{**KILL, "ends": []}, *WELL], id="a process ends that no fault ended"),
        pytest.param(Kind.STUCK, [KILL, *WELL[:2]], id="never well again"),
        pytest.param(Kind.STUCK, [{**END, "end": 1}], id="an exit code"),
    ],
)
def test_a_planted_fault_is_found(kind: Kind, planted: list[Line]) -> None:
    assert kinds(*planted) == [kind]


def test_a_connection_is_cut_only_by_a_fault_that_it_met() -> None:
    assert kinds(KILL, *WELL, sent(2, 99.0), ended(2, 100.2)) == []
    assert kinds(KILL, *WELL, sent(2, 103.0), ended(2, 103.1, reused=True)) == []
    assert kinds(KILL, *WELL, sent(2, 103.0), ended(2, 103.1)) == [Kind.LOST]
    after = 101.0 + CLOSING_SECONDS
    assert kinds(KILL, *WELL, sent(2, after), ended(2, after + 1, reused=True)) == [Kind.LOST]
    assert kinds(sent(2, 98.0), ended(2, 99.0), KILL, *WELL) == [Kind.LOST]
    assert kinds(KILL, *WELL, sent(2, 99.0, via="gRPC"), ended(2, 100.2)) == [Kind.LOST]


def test_ping_may_be_200_soon_after_it_told_of_the_silence() -> None:
    told = [sent(2, 3.0), *ping(3, 8.0, status=503)]
    assert kinds(*told, *ping(4, 13.0), came(2, 13.5)) == []
    assert kinds(*told, *ping(4, 13.1), came(2, 13.5)) == [Kind.LIE]


def test_ping_may_be_200_while_anything_is_answered() -> None:
    answered = [sent(3, 7.0), came(3, 7.5), *ping(4, 8.1)]
    assert kinds(sent(2, 3.0), *answered, came(2, 9.0)) == []


def test_what_a_killed_run_left_open_is_not_lost() -> None:
    verdict = check([*REST, sent(1, 1.0)])
    assert (verdict.findings, verdict.counts["open when the run was killed"]) == ([], 1)


@pytest.mark.parametrize(("growth", "expected"), [(0.01, []), (0.05, [Kind.GROWTH])])
def test_memory_that_grows_after_the_first_tenth(growth: float, expected: list[Kind]) -> None:
    found = [
        {"memory": {"worker 1": 500 if tenth < 60 else int(1e6 * (1 + growth * tenth / 600))}, "at": 100.0 + tenth}
        for tenth in range(0, 660, 5)
    ]
    assert kinds(*found, last={**END, "at": 760.0}) == expected
    # A fault begins the measurement anew.
    fault = {**KILL, "at": 400.0}
    assert kinds(*found[:60], fault, *WELL, *found[60:]) == []


def test_recovery_lasts_until_the_last_failing_request_has_begun() -> None:
    failing = [sent(2, 102.5), came(2, 102.6, status=503, retry=True)]
    verdict = check([*REST, KILL, *WELL[:2], *failing, WELL[2], END])
    assert [fault.recovery for fault in verdict.faults] == [2.0]


def test_a_history_is_read_as_it_was_written_and_histories_add_up(tmp_path: Path) -> None:
    taken: list[Line] = []
    history = History(tmp_path / "one.jsonl", taken.append)
    history.at_rest("one", read(b'{"id": "x7", "predictions": [1, 2.50]}', Form.TEXT))
    history.note(**sent(1, 0.0))
    history.note(**came(1, 0.0, answer=history.key(read(b'{"id":"y8","predictions":[1,2.5]}', Form.TEXT))))
    history.note(**END)
    history.close()
    with (tmp_path / "one.jsonl").open("ab") as file:
        file.write(b'{"sent": 2, "na')
    assert [*lines(tmp_path / "one.jsonl")] == taken
    verdict = Verdict()
    for _ in range(2):
        verdict.add(check(lines(tmp_path / "one.jsonl")))
    assert not verdict.findings
    assert verdict.counts == Counter({"requests": 2, "accepted": 2, "200": 2})


def test_the_report_and_its_row() -> None:
    run = {"run": {"commit": "abc"}, "at": 1.0}
    verdict = check([run, *REST, KILL, *WELL, sent(1, 200.0), {"forbidden": "netem", "why": "not root"}, END])
    text = report(verdict)
    assert "| killed | 1 " in text and "FORBIDDEN: netem: not root" in text and "FOUND: lost: " in text
    assert row(verdict).endswith("| abc | 1 | 1 | 1 | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |")
