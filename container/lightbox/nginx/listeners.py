"""Listening sockets, which the supervisor opens and nginx inherits."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from lightbox.base.errors import PortTaken

QUEUE = 4096
INHERIT_VARIABLE = "NGINX"
"""nginx's variable with inherited sockets, by which a new binary takes over from an old one."""


def listen(address: str) -> socket.socket:
    """Return a non-blocking listening socket for nginx at ``unix:/path``, ``host:port`` or ``[::]:port``, which
    includes IPv4. Raises OSError."""
    path, (host, _, port) = address.removeprefix("unix:"), address.rpartition(":")
    family = socket.AF_UNIX if path != address else socket.AF_INET6 if "[" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_UNIX:
        Path(path).unlink(missing_ok=True)  # left by a killed process
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listener.bind(path if family == socket.AF_UNIX else (host.strip("[]"), int(port)))
    except OSError:
        listener.close()
        raise
    listener.listen(QUEUE)
    listener.setblocking(False)
    return listener


def listen_for_callers(variable: str, address: str) -> socket.socket:
    """Return a listening socket at a variable's port. Raises PortTaken."""
    try:
        return listen(address)
    except OSError as error:
        port = address.rpartition(":")[2]
        raise PortTaken(f"{variable}: port {port} cannot be opened: {error.strerror}") from None


def on_all_interfaces(port: int) -> str:
    """Return the address of a port on all interfaces, for IPv6 and IPv4 where available."""
    return f"[::]:{port}" if socket.has_dualstack_ipv6() else f"0.0.0.0:{port}"


def inherited(listeners: Sequence[socket.socket]) -> dict[str, str]:
    """Return the environment that passes the sockets to nginx; their descriptors must stay open for it."""
    return {INHERIT_VARIABLE: "".join(f"{listener.fileno()};" for listener in listeners)}
