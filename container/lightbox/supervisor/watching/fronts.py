"""The processes that serve callers beside gunicorn, and whether they answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from lightbox.base.machine.local_sockets import connect
from lightbox.core.additions import ChildSpec

POLL_SECONDS, IMPATIENT_SECONDS = 1.0, 0.05
STALE_SECONDS = 10.0
"""Seconds after which a probe without a response is sent again."""


class FrontWatch:
    """Follows a front: whether it answers. It ends a connection that its client ends, as any server does."""

    def __init__(self, spec: ChildSpec) -> None:
        self._title = spec.title
        self._address = spec.listens[0]
        self.problem: str | None = f"{self._title} is starting"
        self.responded_at = 0.0
        self._end = asyncio.Event()

    def ended(self) -> None:
        """Note that the front has ended."""
        self.problem = f"{self._title} has ended and is started again"
        self._end.set()

    def note_silence(self, is_silent: bool) -> None:
        """Note whether the front is known not to answer."""
        if is_silent:
            self.problem = f"{self._title} does not answer"

    async def follow(self) -> None:
        """Probe the front, forever; after its end at once."""
        while True:
            self._end.clear()
            with suppress(OSError):  # TimeoutError is one
                async with asyncio.timeout(STALE_SECONDS):
                    await self._probe()
                if not self._end.is_set():  # else the end may have closed the connection
                    self.responded_at, self.problem = time.monotonic(), None
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS if self.problem is None else IMPATIENT_SECONDS):
                    await self._end.wait()

    async def _probe(self) -> None:
        reader, writer = await connect(self._address)
        try:
            writer.write_eof()
            await reader.read()
        finally:
            writer.close()
