"""The cores of this container."""

from __future__ import annotations

import math
import os
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
CPU_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
CPU_PERIOD_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def available_cores() -> int:
    """Return the cores allowed by affinity and the cgroup's quota, at least 1.

    ``os.cpu_count()`` returns the machine's cores, which a container with ``--cpus 1`` cannot use.
    """
    allowed = len(os.sched_getaffinity(0))
    quota = _cgroup_quota()
    return max(1, min(allowed, math.ceil(quota)) if quota else allowed)


def _cgroup_quota() -> float | None:
    """Return the cores allowed by the cgroup (version 2, then 1), or None without a limit."""
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
