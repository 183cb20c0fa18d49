"""The cores of this container."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from lightbox.model_runtime.cgroups import chain, read_text


def available_cores() -> int:
    """Return the cores allowed by affinity and the cgroups' quotas, at least 1.

    ``os.cpu_count()`` returns the machine's cores, which a container with ``--cpus 1`` cannot use.
    """
    return max(1, min([len(os.sched_getaffinity(0)), *map(math.ceil, _quotas())]))


def _quotas() -> Iterator[float]:
    """Yield the cores that each cgroup with a limit allows."""
    for folder in chain("cpu"):
        of_version_1 = f"{read_text(folder / 'cpu.cfs_quota_us')} {read_text(folder / 'cpu.cfs_period_us')}"
        for text in (read_text(folder / "cpu.max"), of_version_1):
            numbers = text.split()
            if len(numbers) == 2 and all(map(str.isdigit, numbers)):  # "max", or -1, is no limit
                yield int(numbers[0]) / int(numbers[1])
