"""The counts of the streams process, in a file of the run directory that the supervisor reads for /metrics."""

from __future__ import annotations

from pathlib import Path

from lightbox.base.machine.shared_files import shared_numbers

FILE = "streams.counts"
_OPEN, _DROPPED = 0, 1


class StreamCounts:
    """The counts of this process; without ``path`` they are in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        """Start with no open stream, and with the dropped frames of earlier processes. Raises OSError."""
        self._counts = shared_numbers(path, 2, "q") if path else memoryview(bytearray(16)).cast("q")
        self._counts[_OPEN] = 0

    def opened(self) -> None:
        """Count an opened stream."""
        self._counts[_OPEN] += 1

    def closed(self) -> None:
        """Count a closed stream."""
        self._counts[_OPEN] -= 1

    def dropped(self) -> None:
        """Count a dropped frame."""
        self._counts[_DROPPED] += 1


def read(path: Path) -> tuple[int, int]:
    """Return open streams and dropped frames, zeros if no stream was ever served."""
    if not path.exists():
        return 0, 0
    counts = shared_numbers(path, 2, "q")
    return counts[_OPEN], counts[_DROPPED]
