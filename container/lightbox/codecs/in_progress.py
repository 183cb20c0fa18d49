"""How many requests a process works on: who is alone may use all cores."""

from __future__ import annotations

import threading
from types import TracebackType


class InProgress:
    """Counts those who are inside; enter it with ``with``, from any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._count -= 1

    @property
    def at_most_one(self) -> bool:
        """Whether nobody is inside, or one who is alone."""
        return self._count <= 1
