"""Requests that are worked on after they have been answered."""

from __future__ import annotations

import pytest

from lightbox.core.edge import Overdue
from lightbox.core.request_context import RequestContext


def test_each_is_told_of_once_and_when_it_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestContext, "elapsed", lambda _: 0.0)
    overdue = Overdue(40)
    with overdue.watch("a", RequestContext(30, waited=39)), overdue.watch("b", RequestContext(30, waited=50)):
        assert overdue.count() == 1
        assert overdue.count() == 1
    assert overdue.count() == 0
    assert [record.getMessage() for record in caplog.records] == [
        "request b: still in progress 50 s after its arrival, answered with 504 after 40 s",
        "request b: ended 50 s after its arrival",
    ]


def test_two_requests_of_one_id_are_two() -> None:
    overdue = Overdue(40)
    with overdue.watch("a", RequestContext(30, waited=50)):
        with overdue.watch("a", RequestContext(30, waited=50)):
            assert overdue.count() == 2
        assert overdue.count() == 1
