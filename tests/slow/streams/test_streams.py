"""A thousand idle streams; docs/streams.md states their memory and CPU time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidMessage
from websockets.frames import Frame, Opcode

from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import Stack, running

STREAMS = 1000
PINGS = 2
"""A stream that is silent is pinged, and closed when no answer comes."""
OPTIONS: dict[str, Any] = {"compression": None, "ping_interval": None}
OPTIONS |= {"open_timeout": PATIENCE, "close_timeout": PATIENCE}


AT_ONCE, HEADER_SECONDS = 10, 5
"""Handshakes at once: of more, those that a busy machine sends last would come after nginx's time for headers."""


class Pinged(ClientConnection):
    """Counts the received pings. The library answers them."""

    pings = 0

    def process_event(self, event: Any) -> None:
        self.pings += isinstance(event, Frame) and event.opcode is Opcode.PING
        super().process_event(event)


def test_a_thousand_idle_streams_cost_little(tmp_path: Path) -> None:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    with running(tmp_path / "models", tmp_path / "run", LIGHTBOX_STREAMS="true") as stack:
        asyncio.run(stay_idle(stack))


async def stay_idle(stack: Stack) -> None:
    (worker,), nginx = stack.processes("lightbox.features.streams.process"), stack.processes("nginx:")
    url = stack.url.replace("http:", "ws:") + "/invocations-bidirectional-stream"
    before, nginx_before = size(worker), size(*nginx)
    streams: list[Any] = []
    for _ in range(STREAMS // AT_ONCE):
        streams += await asyncio.gather(*(opened(url) for _ in range(AT_ONCE)))
    grown, nginx_grown = size(worker) - before, size(*nginx) - nginx_before
    computed, began = seconds(worker, *nginx), time.monotonic()
    while min(stream.pings for stream in streams) < PINGS:
        await asyncio.sleep(1)
    computed = seconds(worker, *nginx) - computed
    print(
        f"{grown / 1e6:.1f} MB, nginx {nginx_grown / 1e6:.1f} MB, {computed:.2f} s in {time.monotonic() - began:.0f} s"
    )
    assert worker.num_threads() == 1
    assert grown < 40e6
    assert nginx_grown < 60e6
    await asyncio.gather(*(stream.close() for stream in streams))
    assert {stream.close_code for stream in streams} == {1000}  # all were open: they had answered pings


async def opened(url: str) -> Any:
    """Open a stream; again where this process stood still for longer than nginx waits for a handshake."""
    while True:
        began = time.monotonic()
        try:
            return await connect(url, create_connection=Pinged, **OPTIONS)
        except InvalidMessage as error:
            if not isinstance(error.__cause__, EOFError) or time.monotonic() - began < HEADER_SECONDS:
                raise


def size(*processes: psutil.Process) -> int:
    return sum(process.memory_info().rss for process in processes)


def seconds(*processes: psutil.Process) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)
