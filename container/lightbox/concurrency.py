"""How many requests a process works on: who is alone may use all cores."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from lightbox.errors import DeadlineExceeded
from lightbox.request_context import RequestContext


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


def decoding_at_once(cores: int, workers: int) -> int:
    """Return how many images each of the workers may decode at once: twice its share of the cores, at least 2.

    The second one goes on while the first waits for the interpreter or is preempted.
    """
    return max(2, math.ceil(2 * cores / workers))


class DecodeSlots:
    """Lets ``at_once`` threads through; the others wait, in the stage "wait", no longer than their request may take."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._change = threading.Condition()
        self._taken = 0

    @contextmanager
    def take(self, context: RequestContext) -> Iterator[None]:
        """Hold a place. Raises DeadlineExceeded when the request's time passes before there is one."""
        with self._change:
            if not self._is_free():
                with context.stage("wait"):
                    found = self._change.wait_for(self._is_free, timeout=max(0.0, context.remaining()))
                if not found:
                    raise DeadlineExceeded(
                        f"the request's {context.allowed_seconds:g} s had passed before its image could be decoded"
                    )
            self._taken += 1
        try:
            yield
        finally:
            with self._change:
                self._taken -= 1
                self._change.notify()

    def _is_free(self) -> bool:
        return self._taken < self._at_once
