"""Asks workers over HTTP, without blocking the supervisor."""

from __future__ import annotations

import asyncio


async def get(address: str, path: str) -> tuple[int, bytes]:
    """Return status and body of a GET at ``unix:/path`` or ``host:port``; raise OSError or ValueError."""
    if address.startswith("unix:"):
        reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
    else:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return int(head.split(b" ", 2)[1]) if b" " in head else 0, body
