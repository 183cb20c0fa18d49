"""Listening sockets, which the supervisor opens and nginx inherits."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from lightbox.base.errors import PortTaken
from lightbox.base.machine.local_sockets import listen

INHERIT_VARIABLE = "NGINX"
"""nginx's variable with inherited sockets, by which a new binary takes over from an old one."""


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


def address_of(host: str | None, port: int) -> str:
    """Return the address of a port at one of this machine's addresses, on all interfaces without one."""
    if host is None:
        return on_all_interfaces(port)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def inherited(listeners: Sequence[socket.socket]) -> dict[str, str]:
    """Return the environment that passes the sockets to nginx; their descriptors must stay open for it."""
    return {INHERIT_VARIABLE: "".join(f"{listener.fileno()};" for listener in listeners)}
