"""A relay that passes bytes on and counts them: python -m benchmark.servers.relay COUNTER LISTEN TARGET

Addresses are ``unix:/path`` or ``host:port``. It ends when the target is gone, or with its parent's signal.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CHUNK = 1 << 18
_FORM = struct.Struct("<QQ")


class Counter:
    """Two numbers in a file that both sides map: bytes there, bytes back."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FORM.size)

    def read(self) -> tuple[int, int]:
        """Return bytes there and back."""
        there, back = _FORM.unpack_from(self._map)
        return there, back

    def add(self, there: int, back: int) -> None:
        """Count more bytes."""
        before = self.read()
        _FORM.pack_into(self._map, 0, before[0] + there, before[1] + back)


def new_counter(path: Path) -> None:
    """Make a counter's file, both numbers zero."""
    path.write_bytes(bytes(_FORM.size))


async def relay(counter: Counter, listen: str, target: str) -> asyncio.Server:
    """Listen, and connect every caller with the target."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await _connect(target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            _pump(reader, far_writer, lambda count: counter.add(count, 0)),
            _pump(far_reader, writer, lambda count: counter.add(0, count)),
        )

    if listen.startswith("unix:"):
        path = Path(listen.removeprefix("unix:"))
        server = await asyncio.start_unix_server(carry, path, limit=CHUNK)
        path.chmod(0o777)  # nginx's workers may run as another user
        return server
    host, _, port = listen.rpartition(":")
    return await asyncio.start_server(carry, host, int(port), limit=CHUNK)


async def _connect(target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if target.startswith("unix:"):
        return await asyncio.open_unix_connection(target.removeprefix("unix:"), limit=CHUNK)
    host, _, port = target.rpartition(":")
    return await asyncio.open_connection(host, int(port), limit=CHUNK)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            count(len(data))
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()


async def _main(counter: str, listen: str, target: str) -> None:
    server = await relay(Counter(Path(counter)), listen, target)
    path = Path(target.removeprefix("unix:"))
    async with server:
        while not target.startswith("unix:") or path.exists():
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:4]))
