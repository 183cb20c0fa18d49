"""Sockets at an address: ``unix:/path``, ``host:port``, or ``[::]:port``, which includes IPv4.

``fd://NUMBER`` is one that this process has inherited.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

QUEUE = 4096
INHERITED = "fd://"


def parse_address(address: str) -> str | tuple[str, int]:
    """Return the path of a unix socket, or host and port. Raises ValueError."""
    if address.startswith("unix:"):
        return address.removeprefix("unix:")
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def listen(address: str) -> socket.socket:
    """Return a non-blocking listening socket. Raises OSError."""
    listener = bind(address)
    listener.listen(QUEUE)
    return listener


def bind(address: str) -> socket.socket:
    """Return a non-blocking socket that does not listen yet: connections to it are refused. Raises OSError."""
    if address.startswith(INHERITED):
        inherited = socket.socket(fileno=int(address.removeprefix(INHERITED)))
        inherited.setblocking(False)
        return inherited
    place = parse_address(address)
    if isinstance(place, str):
        family = socket.AF_UNIX
        Path(place).unlink(missing_ok=True)  # left by a killed process
    else:
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind(place)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection. Raises OSError."""
    place = parse_address(address)
    return await (asyncio.open_unix_connection(place) if isinstance(place, str) else asyncio.open_connection(*place))
