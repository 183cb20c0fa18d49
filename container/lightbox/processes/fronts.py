"""The processes beside nginx that let callers in: what they are, and whether they listen."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lightbox.processes.commands import PYTHON, grpc_front_command
from lightbox.settings import Settings
from lightbox.telemetry import stream_counts

POLL_SECONDS, IMPATIENT_SECONDS = 0.25, 0.05
_TITLES = {"grpc_front": "the gRPC front", "streams": "the process for streams"}


@dataclass(frozen=True)
class Front:
    """How a front is started, and where it listens: ``unix:/path`` or ``host:port``."""

    command: list[str]
    address: str


def fronts(settings: Settings, plan_file: Path, health: str, streams: str, room: int) -> dict[str, Front]:
    """Return the fronts that the settings turn on; ``health`` is where /ping is answered, ``streams`` is for streams.

    ``room`` is how many bytes streams may hold together.
    """
    found = {}
    if settings.kserve_grpc_port is not None:
        command = grpc_front_command(plan_file, health)
        found["grpc_front"] = Front(command, f"127.0.0.1:{settings.kserve_grpc_port}")
    if settings.streams:
        counts = plan_file.with_name(stream_counts.FILE)
        found["streams"] = Front([*PYTHON, "lightbox.streams_worker", streams, str(room), str(counts)], streams)
    return found


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to ``unix:/path`` or ``host:port``; raise OSError."""
    if address.startswith("unix:"):
        return await asyncio.open_unix_connection(address.removeprefix("unix:"))
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


class FrontWatch:
    """Knows whether a front listens, from each of its starts on."""

    def __init__(self, name: str, address: str) -> None:
        self._title = _TITLES[name]
        self._address = address
        self.problem: str | None = f"{self._title} is starting"

    def ended(self) -> None:
        """Note that the front is gone."""
        self.problem = f"{self._title} has ended and is started again"

    async def follow(self) -> None:
        """See when the front listens, once after each of its starts, for ever."""
        while True:
            if self.problem is not None:
                with suppress(OSError):
                    _, writer = await connect(self._address)
                    writer.close()
                    self.problem = None
            await asyncio.sleep(POLL_SECONDS if self.problem is None else IMPATIENT_SECONDS)
