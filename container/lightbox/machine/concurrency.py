"""The cores of this container, and how many requests and images a process works on at once."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from lightbox.core.errors import DeadlineExceeded
from lightbox.core.request_context import RequestContext

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
CPU_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
CPU_PERIOD_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def available_cores() -> int:
    """Return the cores that affinity and the cgroup's quota leave, at least 1.

    ``os.cpu_count()`` counts the machine's, which a container with ``--cpus 1`` cannot use.
    """
    allowed = len(os.sched_getaffinity(0))
    quota = _cgroup_quota()
    return max(1, min(allowed, math.ceil(quota)) if quota else allowed)


def _cgroup_quota() -> float | None:
    """Cores that the cgroup grants (version 2, then 1), or None where it sets no limit."""
    try:
        quota, period = CPU_MAX.read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = CPU_QUOTA_V1.read_text().strip(), CPU_PERIOD_V1.read_text().strip()
        except OSError:
            return None
    if quota in ("max", "-1"):
        return None
    return int(quota) / int(period)


class InProgress:
    """Counts the threads inside; enter it with ``with``."""

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
        """Whether at most one thread is inside."""
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
                        f"the request's {context.allowed_seconds:g} s passed before its image could be decoded"
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
