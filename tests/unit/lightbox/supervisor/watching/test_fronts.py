"""A front is ready when it closes a connection that the supervisor has closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lightbox.base.machine.local_sockets import listen
from lightbox.core.additions import ChildSpec
from lightbox.supervisor.watching import fronts
from lightbox.supervisor.watching.fronts import FrontWatch
from support.patience import PATIENCE


def test_a_front_is_probed_at_once_after_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started again sooner than the next usual probe."""
    monkeypatch.setattr(fronts, "POLL_SECONDS", 10 * PATIENCE)
    address = f"unix:{tmp_path / 'front.sock'}"
    watch = FrontWatch(ChildSpec("front", "the front", "module", [address], [address]))
    serves, probed = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        probed.set()
        await serves.wait()
        await reader.read()
        writer.close()

    async def ready() -> None:
        while watch.problem is not None:
            await asyncio.sleep(0.001)

    async def probe() -> None:
        async with asyncio.timeout(PATIENCE), await asyncio.start_unix_server(answer, sock=listen(address)):
            following = asyncio.create_task(watch.follow())
            await probed.wait()
            watch.ended()  # the connection of this probe shows nothing
            serves.set()
            await ready()
            watch.ended()
            assert watch.problem == "the front has ended and is started again"
            await ready()
            following.cancel()

    asyncio.run(probe())
