"""Measures the CPU time and peak memory of an input; more than the bound for its length is a fault.

Memory is the allocations of Python and numpy, which are the same in every run, and the growth of the process, which
includes C code.
"""

from __future__ import annotations

import ctypes
import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from lightbox.tools.harness.memory_use import PeakGrowth

SHORT = 2048
"""Bytes of an input that cannot hold enough parts to cost much."""
TRIES = 3
"""Times that an input is run before its processor time is believed: the least counts."""


class TooCostly(Exception):
    """An input takes more time or memory than its length allows."""


@dataclass(frozen=True)
class Bound:
    """The limit of time and memory for an input: a constant plus an amount per byte.

    The seconds apply to code instrumented by atheris, which is several times slower.
    """

    seconds: float = 0.5
    seconds_per_byte: float = 10e-6
    allocated: int = 256 << 10
    allocated_per_byte: float = 40
    grown: int = 16 << 20
    grown_per_byte: float = 64

    def check(self, run: Callable[[bytes], None], data: bytes) -> None:
        """Run a target on an input; raise TooCostly if it takes too much time or memory.

        Allocations are traced, which is slow, only if the input is long or the process grows.
        """
        growth = PeakGrowth()
        self.check_time(run, data)
        if len(data) > SHORT or growth.bytes() > self.allocated:
            self.check_memory(run, data)

    def check_memory(self, run: Callable[[bytes], None], data: bytes) -> None:
        """Run a target on an input; raise TooCostly if it takes too much memory, and the target's own errors."""
        allocated, grown = _memory(run, data)
        self._hold("Python and numpy allocated", allocated, self.allocated + self.allocated_per_byte * len(data), data)
        self._hold("the process grew by", grown, self.grown + self.grown_per_byte * len(data), data)

    def check_time(self, run: Callable[[bytes], None], data: bytes) -> None:
        """Run a target on an input; raise TooCostly if every attempt takes too long."""
        allowed = self.seconds + self.seconds_per_byte * len(data)
        taken = float("inf")
        for _ in range(TRIES):
            started = time.thread_time()
            run(data)
            taken = min(taken, time.thread_time() - started)
            if taken <= allowed:
                return
        raise TooCostly(f"{len(data)} bytes took {taken:.2f} s of processor time, and {allowed:.2f} s are allowed")

    def _hold(self, what: str, found: int, allowed: float, data: bytes) -> None:
        if found > allowed:
            raise TooCostly(f"{what} {found} bytes for {len(data)}, and {int(allowed)} are allowed")


def _memory(run: Callable[[bytes], None], data: bytes) -> tuple[int, int]:
    """Return the peak allocation of a run and the growth of the process, in bytes."""
    gc.collect(0)
    _return_free_memory()
    growth = PeakGrowth()
    tracemalloc.start(1)
    try:
        run(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, growth.bytes()


def _return_free_memory() -> None:
    """Return the C library's free memory to the kernel: a run that reuses it would not show as growth."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
