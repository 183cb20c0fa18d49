"""gRPC's health service, answered from the supervisor's /ping."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable

from lightbox.base.plain_http import get
from lightbox.features.open_inference.grpc import messages as grpc_messages

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
WATCH_SECONDS = 0.5
"""Seconds between two checks for watchers. They share the results."""
PING_SECONDS = 2.0
_KNOWN = ("", grpc_messages.INFERENCE_SERVICE)


class Readiness:
    """Returns whether calls can be served, from ``ask``; ``services`` are known besides the protocol's own."""

    def __init__(self, ask: Callable[[], Awaitable[bool]], services: Iterable[str] = ()) -> None:
        self._known = {*_KNOWN, *services}
        self._ask = ask
        self._asked = -math.inf
        self._last = False
        self._asking = asyncio.Lock()

    async def is_ready(self, age: float = 0.0) -> bool:
        """Return the result of a /ping that was sent at most ``age`` seconds before this call; callers share it."""
        oldest = time.monotonic() - age
        async with self._asking:
            if self._asked < oldest:
                asked = time.monotonic()
                self._last = await self._ask()
                self._asked = asked
            return self._last

    async def status(self, service: str, age: float = 0.0) -> int | None:
        """Return a service's status number, None for an unknown service."""
        if service not in self._known:
            return None
        return SERVING if await self.is_ready(age) else NOT_SERVING


async def ping(address: str) -> bool:
    """Return whether /ping is 200 at ``unix:/path`` or ``host:port``."""
    try:
        async with asyncio.timeout(PING_SECONDS):
            return (await get(address, "/ping"))[0] == 200
    except (OSError, ValueError):  # TimeoutError is an OSError
        return False
