"""Tasks that outlive a want of file descriptors, memory or space."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lightbox.base.machine.scarcity import SCARCE
from lightbox.base.telemetry.logs import log

T = TypeVar("T")

RETRY_SECONDS = 1.0


async def lasting(run: Callable[[], Awaitable[T]]) -> T:
    """Return what a task returns; begin it again after a second when something is scarce. Raises its other errors."""
    while True:
        try:
            return await run()
        except OSError as error:
            if error.errno not in SCARCE:
                raise
            log(f"the supervisor tries again in {RETRY_SECONDS:g} s: {error.strerror}")
        await asyncio.sleep(RETRY_SECONDS)
