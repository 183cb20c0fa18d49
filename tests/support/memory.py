"""What this process holds in memory."""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")


class PeakGrowth:
    """How much more memory of its own than at the beginning this process has held since then.

    Pages of files, such as libraries, do not count: the kernel takes those that are not used, and maps them again
    when they are.
    """

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM, the peak, begins anew
        self._before = _mb("VmRSS") - _mb("RssFile")

    def mb(self) -> float:
        """Return the growth in MiB; files' pages that were mapped after the peak make it smaller."""
        return _mb("VmHWM") - _mb("RssFile") - self._before


def _mb(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) / 1024
