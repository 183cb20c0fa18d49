"""Asks model servers and workers, without blocking the supervisor."""

from __future__ import annotations

import asyncio
import json


async def model_states(port: int, model: str) -> list[str]:
    """Return the states of a model's versions; raise OSError or ValueError when there is no such answer."""
    _, body = await get(f"127.0.0.1:{port}", f"/v1/models/{model}")
    answer = json.loads(body)
    return [str(status["state"]) for status in answer.get("model_version_status", [])]


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
