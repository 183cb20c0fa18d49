"""A fair semaphore: threads get it in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """Admits a number of threads at once.

    ``threading.Semaphore`` lets a new thread overtake woken ones, which then wait behind all others: under load a few
    requests take many times as long as most.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for a turn, at most ``timeout`` seconds. Return whether it came; ``release`` ends it."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=max(0.0, timeout)):
            return True
        with self._lock:
            if turn not in self._waiting:
                return True  # it came just now
            self._waiting.remove(turn)
            return False

    def release(self) -> None:
        """End a turn; the next thread owns it at once, even before it wakes."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
