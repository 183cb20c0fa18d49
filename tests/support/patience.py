"""Waiting in tests: for events, with a long timeout."""

from __future__ import annotations

import time
from collections.abc import Iterator

PATIENCE = 300.0
"""Seconds after which a test no longer waits for what must come. Only what never comes takes so long: a machine that is
slow, busy or stands still for a while does not."""


def poll(seconds: float = PATIENCE, pause: float = 0.05) -> Iterator[None]:
    """Yield repeatedly until a deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
