"""How much of the machine a model may use, and how exactly it computes."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

INT8 = "int8"
PRECISIONS = ("f32", "bf16", INT8)

_PROCESSORS = Path("/proc/cpuinfo")
_OF_A_KIND = re.compile(
    r"(?:vendor_id|cpu family|model|model name|stepping|flags|"
    r"Features|CPU implementer|CPU architecture|CPU variant|CPU part)"
    r"\s*:.*"
)
"""The lines that tell one kind of processor from another, on x86-64 and on arm64; others tell of the moment."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_PERIOD_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


@dataclass(frozen=True)
class Hardware:
    """How much of the machine a model may use, and how exactly it computes."""

    threads: int
    streams: int
    """Calls that run at the same time; the threads are shared among them."""
    precision: str = "f32"
    cache_folder: str = ""
    """Where what was found out about models is kept, empty for nowhere."""


@cache
def processor() -> str:
    """Return eight digits that stand for the kind of this processor, its extensions included."""
    try:
        first = _PROCESSORS.read_text().partition("\n\n")[0]
    except OSError:
        first = ""
    kind = [platform.machine(), *filter(_OF_A_KIND.fullmatch, first.splitlines())]
    return hashlib.sha256("\n".join(kind).encode()).hexdigest()[:8]


def cores() -> int:
    """Return how many cores this process may use: those of its affinity, or the cgroup's quota if that is less."""
    count = len(os.sched_getaffinity(0))
    for files in ((_QUOTA,), (_QUOTA_V1, _PERIOD_V1)):
        try:
            quota, period = (int(text) for file in files for text in file.read_text().split())
        except (OSError, ValueError):  # "max": no quota; or another version of cgroups
            continue
        return max(1, min(count, -(-quota // period))) if quota > 0 else count
    return count
