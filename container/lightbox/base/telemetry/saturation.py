"""Saturation of this container: requests in progress and waiting, divided by those that may be in progress."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lightbox.base.telemetry.metrics import requests_of_all

SAMPLE_SECONDS, IDLE_SAMPLE_SECONDS = 0.1, 0.5
"""Time between samples, and while there is no load: an idle container's samples took a third of its processor time."""
SMOOTHING_SECONDS = 5.0
"""Time constant of the mean: a change shows to 63 % after this time, to 95 % after three times as long."""
SATURATION_HEADER = "X-Lightbox-Saturation"


class Saturation:
    """Follows the saturation: 0 is idle; at 1 a new request waits for a thread or is refused.

    A sample is ``min(1, requests / slots)``: ``requests`` are those of all processes, in progress or waiting; ``slots``
    is the number that may be in progress. ``own_shares`` returns the requests of each model with slots of its own, and
    how many it has: a sample is that of the share that is fullest. The value is the exponential mean of the samples.
    """

    def __init__(
        self, run_dir: Path, slots: int, own_shares: Callable[[], Sequence[tuple[int, int]]] = lambda: ()
    ) -> None:
        self._run_dir = run_dir
        self._slots = slots
        self._own_shares = own_shares
        self._mean = 0.0
        self._sampled = time.monotonic()

    @property
    def value(self) -> float:
        """From 0 to 1, to three digits."""
        return round(self._mean, 3)

    @property
    def in_progress(self) -> int:
        """The number of requests in progress in all processes."""
        return requests_of_all(self._run_dir)[1]

    async def follow(self) -> None:
        """Sample forever."""
        while True:
            self.sample(time.monotonic())
            await asyncio.sleep(SAMPLE_SECONDS if self.value else IDLE_SAMPLE_SECONDS)

    def sample(self, now: float) -> None:
        """Add a sample at ``now``, in seconds of the monotonic clock, to the mean."""
        weight = -math.expm1((self._sampled - now) / SMOOTHING_SECONDS)
        self._sampled = now
        own = self._own_shares()
        shared = requests_of_all(self._run_dir)[0] - sum(requests for requests, _ in own)
        fullest = max(requests / slots for requests, slots in [(shared, self._slots), *own])
        self._mean += weight * (min(1.0, fullest) - self._mean)
