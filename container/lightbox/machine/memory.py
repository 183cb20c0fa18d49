"""The memory of this container: its size, its free part, and the return of freed memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
MEMINFO = Path("/proc/meminfo")
PART = 4
"""Share of the memory for the requests of all workers together."""
LEAST_MB = 64


def default_request_memory_mb() -> int:
    """Return the default limit in MiB of all requests of the container."""
    return max(LEAST_MB, container_bytes() // PART >> 20)


def container_bytes() -> int:
    """Return the bytes allowed by the cgroup (version 2 or 1), at most the machine's; 1 GiB if unknown."""
    limits = [int(text) for path in CGROUP_LIMITS if (text := _text(path).strip()).isdigit()]
    lines = (line.split() for line in _text(MEMINFO).splitlines())
    return min([*limits, *(int(words[1]) * 1024 for words in lines if words[0] == "MemTotal:")], default=1 << 30)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Return the bytes that this container can still use, None if unknown."""
    return min((value for value in (_machine(), _cgroup()) if value is not None), default=None)


def _machine() -> int | None:
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _cgroup() -> int | None:
    """Return the cgroup's (version 2) free bytes; page cache counts as free."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        fields = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return None if limit == "max" else int(limit) - used + int(fields.get("inactive_file", 0))


def find_trim() -> Callable[[], Any]:
    """Return the function that returns freed memory, a no-op without glibc. It takes milliseconds in parallel."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: trim(0)) if trim is not None else lambda: None
