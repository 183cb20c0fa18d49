"""Measure the peak memory growth of a process."""

from __future__ import annotations

import mmap

from support.memory_use import PeakGrowth

MB = 1 << 20


def test_what_was_held_counts_also_when_it_is_given_back() -> None:
    growth = PeakGrowth()
    held = mmap.mmap(-1, 64 * MB)
    for page in range(0, 64 * MB, mmap.PAGESIZE):
        held[page] = 1
    held.close()
    assert growth.mb() > 60
