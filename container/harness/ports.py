"""TCP ports for servers that are about to start."""

from __future__ import annotations

import atexit
import random
import socket
from functools import cache

from lightbox.processes.run_dir import port_is_free

PORTS = range(10_000, 32_000)
"""Below those that the kernel takes for outgoing connections, so that none of these comes in between."""
PORTS_EACH = 1_000
"""How many of them a process has for itself."""

_turn: dict[str, int] = {}


def free_ports(count: int = 1) -> int:
    """Return the first of ``count`` neighbouring TCP ports that nobody listens on now.

    They come in turn, so that those which were given last come again last. No other process of the machine gets them
    from here as long as this one runs.
    """
    own = own_ports()
    while True:
        low = _turn.setdefault("next", own.start)
        if low + count > own.stop:
            low = own.start
        _turn["next"] = low + count
        if all(port_is_free(port) for port in range(low, low + count)):
            return low


@cache
def own_ports() -> range:
    """Claim a part of PORTS for this process: a server may begin to listen long after its port was found free."""
    parts = [range(low, low + PORTS_EACH) for low in PORTS[::PORTS_EACH]]
    random.shuffle(parts)
    for part in parts:
        # A name in Linux's abstract namespace: known to the whole machine, no file, gone with this process.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0harness-ports-{part.start}")
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)
        return part
    raise OSError(f"no free ports: {len(parts)} processes of this machine have all of {PORTS.start} to {PORTS.stop}")
