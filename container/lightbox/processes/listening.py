"""The socket on which callers knock. It outlives nginx: while that is started again, connections wait in its queue."""

from __future__ import annotations

import socket

from lightbox.processes.startup import PortTaken
from lightbox.settings import Settings

QUEUE = 4096
INHERIT_VARIABLE = "NGINX"
"""Where nginx is told the sockets that it finds open; it is how a new binary takes over from an old one."""


def listen(settings: Settings) -> socket.socket:
    """Return the listening socket of nginx's port, as nginx wants it: not blocking. Raises PortTaken."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("0.0.0.0", settings.port))  # noqa: S104 - it is the one port for the outside
    except OSError as error:
        listener.close()
        raise PortTaken(f"SAGEMAKER_BIND_TO_PORT: port {settings.port} cannot be had: {error.strerror}") from None
    listener.listen(QUEUE)
    listener.setblocking(False)
    return listener


def inherited(listener: socket.socket) -> dict[str, str]:
    """Return the environment in which nginx finds the socket; the descriptor must be left open for it."""
    return {INHERIT_VARIABLE: f"{listener.fileno()};"}
