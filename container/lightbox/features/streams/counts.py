"""What the process for streams counts, in a file of the run directory that the supervisor reads for /metrics."""

from __future__ import annotations

from pathlib import Path

from lightbox.machine.shared_files import shared_numbers

FILE = "streams.counts"
_OPEN, _DROPPED = 0, 1


class StreamCounts:
    """The counts of this process; without ``path`` they are its own."""

    def __init__(self, path: Path | None = None) -> None:
        """Begin with no stream, and with the frames that an earlier process dropped. Raises OSError."""
        self._counts = shared_numbers(path, 2, "q") if path else memoryview(bytearray(16)).cast("q")
        self._counts[_OPEN] = 0

    def opened(self) -> None:
        """Count a stream."""
        self._counts[_OPEN] += 1

    def closed(self) -> None:
        """Count a stream no longer."""
        self._counts[_OPEN] -= 1

    def dropped(self) -> None:
        """Count a frame that was dropped."""
        self._counts[_DROPPED] += 1


def read(path: Path) -> tuple[int, int]:
    """Return open streams and dropped frames, zeros where no stream was ever served."""
    if not path.exists():
        return 0, 0
    counts = shared_numbers(path, 2, "q")
    return counts[_OPEN], counts[_DROPPED]
