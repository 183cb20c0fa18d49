"""Measure the peak memory growth of a process."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from lightbox.harness.memory import PeakGrowth

MB = 1 << 20


def test_what_was_held_counts_also_when_it_is_given_back() -> None:
    growth = PeakGrowth()
    held = mmap.mmap(-1, 64 * MB)
    for page in range(0, 64 * MB, mmap.PAGESIZE):
        held[page] = 1
    held.close()
    assert growth.mb() > 60


def test_pages_of_files_do_not_count() -> None:
    library = max((Path(np.__file__).parents[1] / "numpy.libs").iterdir(), key=lambda path: path.stat().st_size)
    growth, size = PeakGrowth(), library.stat().st_size
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[page] for page in range(0, size, mmap.PAGESIZE)) > 0
        assert growth.mb() < size / MB / 2
