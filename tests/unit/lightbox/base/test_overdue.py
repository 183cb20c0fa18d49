"""Requests whose work continues after the response."""

from __future__ import annotations

import pytest

from lightbox.base.request_context import RequestContext, Requests


def test_each_is_reported_once_and_at_its_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestContext, "elapsed", lambda _: 0.0)
    requests = Requests(40)
    with requests.progress("a", RequestContext(30, waited=39)), requests.progress("b", RequestContext(30, waited=50)):
        assert requests.overdue() == 1
        assert requests.overdue() == 1
    assert requests.overdue() == 0
    assert [record.getMessage() for record in caplog.records] == [
        "request b: still in progress 50 s after its arrival, answered with 504 after 40 s",
        "request b: ended 50 s after its arrival",
    ]


def test_two_requests_of_one_id_are_two() -> None:
    requests = Requests(40)
    with requests.progress("a", RequestContext(30, waited=50)):
        with requests.progress("a", RequestContext(30, waited=50)):
            assert requests.overdue() == 2
        assert requests.overdue() == 1
