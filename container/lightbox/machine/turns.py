"""A semaphore that is fair: its waiters go in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """Lets so many threads through at once.

    ``threading.Semaphore`` lets a newcomer pass those that it has just woken, which then wait behind all others: under
    load a few requests take many times as long as most.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for a turn, ``timeout`` seconds at most. Return whether it came; ``release`` ends it."""
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
        """End a turn: it is the next one's, also before that has woken."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
