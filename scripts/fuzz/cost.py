"""What an input costs: processor time, and memory at its peak. Beyond a bound for its length it is a fault.

Memory is what Python and numpy allocate, which is the same in every run, and what the process grows by, which counts
what C code takes as well.
"""

from __future__ import annotations

import ctypes
import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from lightbox.harness.memory import PeakGrowth

SHORT = 2048
"""Bytes of an input that cannot hold enough parts to cost much."""
TRIES = 3
"""Times that an input is run before its processor time is believed: the least counts."""


class TooCostly(Exception):
    """An input costs more than its length allows."""


@dataclass(frozen=True)
class Bound:
    """What an input may cost: so much whatever its length, and so much more for each byte.

    The seconds are for code that atheris has instrumented, which is several times slower.
    """

    seconds: float = 0.5
    seconds_per_byte: float = 10e-6
    allocated: int = 256 << 10
    allocated_per_byte: float = 40
    grown: int = 16 << 20
    grown_per_byte: float = 64

    def check(self, run: Callable[[bytes], None], data: bytes) -> None:
        """Run a target on an input; raise TooCostly where it takes too long or too much memory.

        Allocations are followed, which is slow, only where the input is long, or the process grows.
        """
        growth = PeakGrowth()
        self.check_time(run, data)
        if len(data) > SHORT or growth.bytes() > self.allocated:
            self.check_memory(run, data)

    def check_memory(self, run: Callable[[bytes], None], data: bytes) -> None:
        """Run a target on an input; raise TooCostly where it takes too much memory, and what the target raises."""
        allocated, grown = _memory(run, data)
        self._hold("Python and numpy allocated", allocated, self.allocated + self.allocated_per_byte * len(data), data)
        self._hold("the process grew by", grown, self.grown + self.grown_per_byte * len(data), data)

    def check_time(self, run: Callable[[bytes], None], data: bytes) -> None:
        """Run a target on an input; raise TooCostly where it takes too long every time."""
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
    """Return the bytes that a run allocates at its peak, and by how many the process grows."""
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
    """Give the kernel what the C library keeps: a run that is served from it would not let the process grow."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
