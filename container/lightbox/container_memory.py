"""How much memory this container has."""

from __future__ import annotations

from pathlib import Path

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
