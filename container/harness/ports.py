"""TCP ports for servers that are about to start."""

from __future__ import annotations

import random

from lightbox.processes.run_dir import port_is_free

PORTS = range(10_000, 32_000)
"""Below those that the kernel takes for outgoing connections, so that none of these comes in between."""


def free_ports(count: int = 1) -> int:
    """Return the first of ``count`` neighbouring TCP ports that nobody listens on now."""
    while True:
        low = random.choice(PORTS)  # noqa: S311 - not a secret
        if all(port_is_free(port) for port in range(low, low + count)):
            return low
