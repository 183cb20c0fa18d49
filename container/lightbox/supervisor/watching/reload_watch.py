"""Detects a model server that no longer changes its models: it still answers, and shows no other sign.

tensorflow_model_server loads nothing while a folder of its configuration is missing, and accepts no other configuration
while it waits for a load. Only a restart helps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightbox.base.telemetry.logs import log
from lightbox.transports.model_status import ModelStatus
from lightbox.transports.pending_reload import PendingReload, find_pending

LOOK_SECONDS = 1.0
MOST_LOADING = 10
"""Number of load times that a loading server gets: its end interrupts all models."""
_WORKING = ("START", "LOADING")


@dataclass
class _ObservedReload:
    """A pending reload: the times since it is pending, and since its server is idle, in seconds."""

    reload: PendingReload
    since: float
    idle_since: float


class ReloadWatch:
    """Follows the reloads of all model servers. ``seconds`` is the limit of a load; ``end`` ends a server."""

    def __init__(
        self, run_dir: Path, statuses: Sequence[ModelStatus], seconds: float, end: Callable[[int], object]
    ) -> None:
        self._run_dir = run_dir
        self._statuses = statuses
        self._seconds = seconds
        self._end = end
        self._seen: dict[int, _ObservedReload] = {}

    async def follow(self) -> None:
        """Check all servers, forever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look(asyncio.get_running_loop().time())

    async def look(self, now: float) -> None:
        """Check each server once, and end those with a reload that is pending for too long."""
        for server, status in enumerate(self._statuses):
            reload = find_pending(self._run_dir, server)
            versions = await status.versions_in_time(reload.model) if reload else None
            if reload is None or versions is None:  # an unreachable or starting server is not blocked
                self._seen.pop(server, None)
                continue
            seen = self._seen.get(server)
            if seen is None or seen.reload != reload:
                seen = self._seen[server] = _ObservedReload(reload, now, now)
            if any(version.state in _WORKING for version in versions.values()):
                seen.idle_since = now
            if now - seen.idle_since >= self._seconds or now - seen.since >= MOST_LOADING * self._seconds:
                del self._seen[server]
                log(
                    f"model server {server} has not done the {reload.change} of the model {reload.model!r} in "
                    f"{now - seen.since:.0f} s and accepts no other: it is restarted with the loaded models"
                )
                self._end(server)
