"""TCP ports for servers that are about to start."""

from __future__ import annotations

import atexit
import random
import threading
from itertools import chain

from lightbox.base.run_dir import claimed, port_is_free

PORTS = range(10_000, 32_000)
"""Below the ports that the kernel gives to outgoing connections, so that none of these gets in between."""
CLAIMS = "127.76.66.2"
"""The address of the loopback interface at which processes claim ports."""
PORTS_EACH = 1_000
"""How many of them a process claims at a time."""


class Part:
    """Ports that this process has for itself: a server may begin to listen long after its port was found free."""

    def __init__(self, ports: range) -> None:
        """Claim ``ports``; raise OSError where another process has them."""
        self._claim = claimed(ports.start, CLAIMS)
        self.ports = ports[1:]  # at the first one, nobody else can listen on all addresses
        self._next = self.ports.start
        atexit.register(self._claim.close)

    def take(self, count: int) -> int | None:
        """Return the first of ``count`` free neighbours, None if there are none; round-robin."""
        given = self._next
        for low in chain(range(given, self.ports.stop, count), range(self.ports.start, given, count)):
            if low + count <= self.ports.stop and all(port_is_free(port) for port in range(low, low + count)):
                self._next = low + count
                return low
        return None


_parts: list[Part] = []
_lock = threading.Lock()


def free_ports(count: int = 1) -> int:
    """Return the first of ``count`` neighbouring TCP ports that are free now.

    Ports are given round-robin, so that a released one is reused last. No other process of the machine gets them from
    here while this one runs. Raises OSError if all are taken.
    """
    if not 0 < count < PORTS_EACH:
        raise ValueError(f"count is {count}, expected 1 to {PORTS_EACH - 1}")
    with _lock:
        for part in _parts:
            if (low := part.take(count)) is not None:
                return low
        while (low := _claim().take(count)) is None:
            pass
        return low


def _claim() -> Part:
    starts = list(PORTS[::PORTS_EACH])
    random.shuffle(starts)
    for start in starts:
        try:
            _parts.append(Part(range(start, start + PORTS_EACH)))
        except OSError:
            continue
        return _parts[-1]
    raise OSError(f"no free ports: all of {PORTS.start} to {PORTS.stop} are claimed by processes of this machine")
