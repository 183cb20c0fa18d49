"""The supervisor's HTTP server under many callers, and with long headers. test_readiness.py has /ping."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from lightbox.base.machine.local_sockets import connect
from support.health import health_server


def while_serving(folder: Path, ask: Callable[[str], Awaitable[None]]) -> None:
    async def run() -> None:
        async with await health_server(folder).serve(f"unix:{folder}/health"):
            await ask(f"{folder}/health")

    asyncio.run(run())


def test_many_ask_at_once(tmp_path: Path) -> None:
    async def ask(path: str) -> None:
        with ExitStack() as asking:
            for _ in range(300):  # the supervisor is busy meanwhile
                one = asking.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(path)

    while_serving(tmp_path, ask)


def test_callers_may_send_long_headers(tmp_path: Path) -> None:
    async def ask(path: str) -> None:
        reader, writer = await connect(f"unix:{path}")
        writer.write(f"GET /room/7/x/10 HTTP/1.1\r\nX-Long: {'x' * 200_000}\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 204 ")
        writer.close()

    while_serving(tmp_path, ask)
