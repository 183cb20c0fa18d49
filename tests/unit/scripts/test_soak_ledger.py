"""Requests that the soak counts as lost, or as cut by the death of the process with their connection."""

from __future__ import annotations

import json

import pytest

from soak.client import Fate, Outcome, Request
from soak.ledger import CLOSING_SECONDS, Kill, Ledger
from soak.run import PING

KILLED = 100.0
CUT, LOST = "cut by nginx's death", "lost"


def _noted(reused: bool, started: float, ended: float, kind: str = "nginx master", fate: Fate = Fate.CUT) -> str:
    """Return the count that a request without a response adds to."""
    ledger = Ledger()
    ledger.kills.append(Kill(kind, "SIGKILL", at=KILLED, sent=KILLED + 0.01))
    assert not ledger.note(Outcome(PING, fate, reused, started, ended))
    (kind_of_end,) = (+ledger.counts).keys() - {"requests", "accepted"}
    assert bool(ledger.lost) == (kind_of_end == LOST)
    return str(kind_of_end)


@pytest.mark.parametrize(
    ("reused", "started", "ended", "expected"),
    [
        pytest.param(False, 99.0, 100.5, CUT, id="in progress at the kill"),
        pytest.param(False, 100.005, 100.5, CUT, id="begun while the signal was sent"),
        pytest.param(True, 103.0, 103.1, CUT, id="over a connection that is closed after the kill"),
        pytest.param(False, 103.0, 103.1, LOST, id="over a new connection after the kill"),
        pytest.param(True, KILLED + CLOSING_SECONDS + 1, KILLED + CLOSING_SECONDS + 2, LOST, id="long after the kill"),
        pytest.param(True, 98.0, 99.0, LOST, id="before the kill"),
    ],
)
def test_a_request_without_a_response_is_cut_only_where_its_connection_met_a_kill(
    reused: bool, started: float, ended: float, expected: str
) -> None:
    assert _noted(reused, started, ended) == expected
    unsent = "not sent" if expected == CUT else LOST
    assert _noted(reused, started, ended, fate=Fate.UNSENT) == unsent


@pytest.mark.parametrize(("body", "count"), [(b"[1]", "200"), (b"[2]", LOST), (b"[", LOST)])
def test_a_body_that_differs_or_cannot_be_read_is_lost(body: bytes, count: str) -> None:
    ledger = Ledger()
    request = Request("one", "/", check=lambda answer: bool(json.loads(answer) == [1]))
    assert ledger.note(Outcome(request, Fate.ANSWERED, status=200, body=body)) == (count == "200")
    assert ledger.counts[count] == 1
