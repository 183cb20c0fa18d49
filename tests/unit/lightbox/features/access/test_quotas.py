"""The rates of keys: requests that are left, headers, and refusals that wait."""

from __future__ import annotations

import pytest

from lightbox.base.error_bodies import error_response, grpc_trailers
from lightbox.base.errors import RateLimited
from lightbox.features.access.keys import Caller, Rate
from lightbox.features.access.quotas import Quotas
from lightbox.nginx.refusals import ERROR_HEADER, refusal, written
from lightbox.serving.settings_loading import load_settings

CI = Caller("ci", b"", frozenset(), Rate(2, 60))


class Clock:
    """Time that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_used_and_comes_back() -> None:
    clock = Clock()
    kept = Quotas(clock)
    assert kept.take(CI) == {"RateLimit-Policy": '"ci";q=2;w=60', "RateLimit": '"ci";r=1;t=30'}
    assert kept.take(CI)["RateLimit"] == '"ci";r=0;t=60'
    clock.now += 10
    with pytest.raises(RateLimited, match="may send 2 requests in 60 s") as refused:
        kept.take(CI)
    assert refused.value.retry_after == 20
    assert refused.value.headers["RateLimit"] == '"ci";r=0;t=50'
    clock.now += 20
    kept.take(CI)
    clock.now += 1e6
    assert [kept.take(CI)["RateLimit"] for _ in range(2)] == ['"ci";r=1;t=30', '"ci";r=0;t=60']


def test_a_name_without_a_rate_has_no_limit() -> None:
    kept = Quotas()
    assert [kept.take(Caller("ci", b"", frozenset())) for _ in range(3)] == [{}] * 3


def test_a_refusal_in_each_form() -> None:
    error = RateLimited("try again: the key 'ci' ...", 20, {"RateLimit": '"ci";r=0;t=50'})
    status, headers, _ = error_response(error, "7", is_model_error=True)
    assert status == 429
    assert {("Retry-After", "20"), ("RateLimit", '"ci";r=0;t=50')} <= set(headers)
    assert ("grpc-status", "8") in grpc_trailers(error, "7")
    response = refusal(load_settings({}), "/refusal/denied", {ERROR_HEADER: written(error)})
    assert response.startswith(b"HTTP/1.1 429 ")
    assert b'RateLimit: "ci";r=0;t=50' in response
    assert b"Retry-After: 20" in response
