"""Refusals that wait before they are sent, as callers may repeat a request at once."""

from __future__ import annotations

import asyncio

MOST = 500
"""How many wait at the same time; further ones are sent at once."""


class Pauses:
    """Pauses of ``seconds``, at most ``most`` at a time, in one event loop."""

    def __init__(self, seconds: float, most: int = MOST) -> None:
        self._seconds = seconds
        self._most = most
        self._waiting = 0

    async def wait(self) -> None:
        """Wait before a refusal is sent, unless as many others do as may."""
        if self._waiting < self._most:
            self._waiting += 1
            try:
                await asyncio.sleep(self._seconds)
            finally:
                self._waiting -= 1
