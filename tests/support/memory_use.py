"""How much more memory this process takes for a while."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")


class PeakGrowth:
    """Growth of this process's peak of private memory since construction.

    File pages, such as libraries, do not count: the kernel drops unused ones, and maps them again on use. Only one
    instance at a time: a second one resets the peak.
    """

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM, the peak, begins anew
        self._before = _bytes("VmRSS") - _bytes("RssFile")

    def bytes(self) -> int:
        """Return the growth; files' pages mapped after the peak make it smaller, those taken after it larger."""
        return max(0, _bytes("VmHWM") - _bytes("RssFile") - self._before)

    def mb(self) -> float:
        """Return the growth in MiB."""
        return self.bytes() / (1 << 20)


def _bytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) << 10
