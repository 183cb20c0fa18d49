"""The memory of this container: its size, its free part, and the return of freed memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lightbox.model_runtime.cgroups import chain, read_text

MEMINFO = Path("/proc/meminfo")
PART = 4
"""Share of the memory for the requests of all workers together."""
LEAST_MB = 64
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Of version 2 and 1: the limit, the used bytes, and the field of memory.stat for page cache that counts as free."""


def default_request_memory_mb() -> int:
    """Return the default limit in MiB of all requests of the container."""
    return max(LEAST_MB, container_bytes() // PART >> 20)


def container_bytes() -> int:
    """Return the bytes that the cgroups allow, at most the machine's; 1 GiB if unknown."""
    return min([limit for limit, _ in _limits()] + _of_machine("MemTotal:"), default=1 << 30)


def available_bytes() -> int | None:
    """Return the bytes that this container can still use, None if unknown."""
    free = [limit - used for limit, used in _limits() if used is not None]
    return min(free + _of_machine("MemAvailable:"), default=None)


def _limits() -> Iterator[tuple[int, int | None]]:
    """Yield limit and use of each cgroup with a limit."""
    for folder in chain("memory"):
        for limit_file, used_file, cached in _FILES:
            limit, used = read_text(folder / limit_file), read_text(folder / used_file)
            if limit.isdigit():
                stat = dict(line.split(None, 1) for line in read_text(folder / "memory.stat").splitlines())
                yield int(limit), int(used) - int(stat.get(cached, 0)) if used.isdigit() else None


def _of_machine(field: str) -> list[int]:
    lines = (line.split() for line in read_text(MEMINFO).splitlines())
    return [int(words[1]) * 1024 for words in lines if words[0] == field]


def find_trim() -> Callable[[], Any]:
    """Return the function that returns freed memory, a no-op without glibc. It takes milliseconds in parallel."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: trim(0)) if trim is not None else lambda: None
