"""What this process holds in memory."""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")


def resident_mb(field: str) -> float:
    """VmRSS, the memory that is resident now, or VmHWM, its peak."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Let VmHWM begin anew."""
    Path("/proc/self/clear_refs").write_text("5")
