"""The processes that serve callers beside gunicorn, and whether they listen."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from lightbox.processes.additions import ChildSpec

POLL_SECONDS, IMPATIENT_SECONDS = 0.25, 0.05


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to ``unix:/path`` or ``host:port``; raise OSError."""
    if address.startswith("unix:"):
        return await asyncio.open_unix_connection(address.removeprefix("unix:"))
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


class FrontWatch:
    """Follows a front: whether it listens, after each of its starts."""

    def __init__(self, spec: ChildSpec) -> None:
        self._title = spec.title
        self._address = spec.address
        self.problem: str | None = f"{self._title} is starting"

    def ended(self) -> None:
        """Note that the front has ended."""
        self.problem = f"{self._title} has ended and is started again"

    async def follow(self) -> None:
        """Note when the front listens, once after each of its starts, forever."""
        while True:
            if self.problem is not None:
                with suppress(OSError):
                    _, writer = await connect(self._address)
                    writer.close()
                    self.problem = None
            await asyncio.sleep(POLL_SECONDS if self.problem is None else IMPATIENT_SECONDS)
