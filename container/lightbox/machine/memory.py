"""The memory of this container: how much there is, how much is free, and how it is given back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
MEMINFO = Path("/proc/meminfo")
PART = 4
"""The requests of all workers together may hold this part of it."""
LEAST_MB = 64


def default_request_memory_mb() -> int:
    """Return the MiB that all requests of the container may hold unless a setting says otherwise."""
    return max(LEAST_MB, container_bytes() // PART >> 20)


def container_bytes() -> int:
    """Return the bytes that the cgroup allows (version 2 or 1), at most the machine's; 1 GiB where nothing tells."""
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
    """Return the bytes that can still be used by this container, None where nothing tells."""
    return min((value for value in (_machine(), _cgroup()) if value is not None), default=None)


def _machine() -> int | None:
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _cgroup() -> int | None:
    """What the cgroup (version 2) allows beyond what it uses; page cache does not count as used."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        fields = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return None if limit == "max" else int(limit) - used + int(fields.get("inactive_file", 0))


def find_trim() -> Callable[[], Any]:
    """Return what gives it back; where there is no glibc it does nothing. Takes milliseconds, beside other threads."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: trim(0)) if trim is not None else lambda: None
