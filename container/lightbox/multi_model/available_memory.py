"""How much memory is left for one more model."""

from __future__ import annotations

from pathlib import Path

MEMINFO = Path("/proc/meminfo")
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
