"""The rates of keys, counted in the supervisor, which checks every request."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping

from lightbox.base.errors import RateLimited
from lightbox.core.pauses import Pauses
from lightbox.features.access.keys import Caller, Rate

_PAUSE_SECONDS = 1.0


class Quotas:
    """The requests that the name of each key has left: as many as its rate at first, and at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """By name: how many were left, and when."""
        self.pauses = Pauses(_PAUSE_SECONDS)
        """Of refusals."""
        self.refused: Counter[str] = Counter()

    def take(self, caller: Caller) -> Mapping[str, str]:
        """Count a request, and return the response's headers. Raises RateLimited if the rate is used."""
        rate, now = caller.rate, self._clock()
        if rate is None:
            return {}
        each = rate.seconds / rate.requests
        left, at = self._left.get(caller.name, (float(rate.requests), now))
        left = min(rate.requests, left + (now - at) / each)
        if left < 1:
            self._left[caller.name] = left, now
            self.refused[caller.name] += 1
            wait = _whole((1 - left) * each)
            message = f"try again: the key {caller.name!r} may send {rate.requests} requests in {rate.seconds} s"
            raise RateLimited(message, max(1, wait), _headers(caller.name, rate, left))
        self._left[caller.name] = left - 1, now
        return _headers(caller.name, rate, left - 1)


def _whole(seconds: float) -> int:
    """Round up, but no error of the arithmetic."""
    return math.ceil(round(seconds, 6))


def _headers(name: str, rate: Rate, left: float) -> Mapping[str, str]:
    """Return the fields of the IETF's draft "RateLimit header fields for HTTP"."""
    until_full = _whole((rate.requests - left) * rate.seconds / rate.requests)
    return {
        "RateLimit-Policy": f'"{name}";q={rate.requests};w={rate.seconds}',
        "RateLimit": f'"{name}";r={int(left)};t={until_full}',
    }
