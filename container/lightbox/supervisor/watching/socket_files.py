"""Restores removed files of unix sockets: their processes listen, and only the names are missing.

A second name of each socket is kept, a hard link. A process that begins anew removes its socket's file before it makes
another: only a file that is missing at two looks in a row is restored.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from lightbox.base.telemetry.logs import log

LOOK_SECONDS = 1.0


class SocketFiles:
    """Follows the sockets of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept = folder / "kept"
        self._kept.mkdir()
        self._missing: set[str] = set()

    async def follow(self, stopping: asyncio.Event) -> None:
        """Look at the files each second until a stop, in which processes remove their own."""
        while not stopping.is_set():
            with suppress(OSError):  # a full disk
                self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Look at the files once."""
        there = {path.name for path in self._folder.glob("*.sock")}
        for name in there:
            path, kept = self._folder / name, self._kept / name
            if not (kept.exists() and kept.samefile(path)):
                kept.unlink(missing_ok=True)
                os.link(path, kept)
        missing = {kept.name for kept in self._kept.iterdir()} - there
        for name in missing & self._missing:
            os.link(self._kept / name, self._folder / name)
            log(f"{self._folder / name} was removed and is restored")
        self._missing = missing - self._missing
