"""What the process for streams counts, in a file of the run directory that the supervisor reads for /metrics."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

FILE = "streams.counts"
_COUNTS = struct.Struct("<QQ")
"""Streams that are open now; frames that were dropped since the container's start."""


class StreamCounts:
    """The counts of this process; without ``path`` nobody is told."""

    def __init__(self, path: Path | None = None) -> None:
        """Begin with no stream, and with the frames that an earlier process dropped. Raises OSError."""
        self._dropped = read(path)[1] if path else 0
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600) if path else None
        self._open = 0
        self._tell()

    def opened(self) -> None:
        """Count a stream."""
        self._open += 1
        self._tell()

    def closed(self) -> None:
        """Count a stream no longer."""
        self._open -= 1
        self._tell()

    def dropped(self) -> None:
        """Count a frame that was dropped."""
        self._dropped += 1
        self._tell()

    def _tell(self) -> None:
        if self._descriptor is not None:
            os.pwrite(self._descriptor, _COUNTS.pack(self._open, self._dropped), 0)


def read(path: Path) -> tuple[int, int]:
    """Return open streams and dropped frames, zeros where no stream was ever served."""
    with suppress(FileNotFoundError, struct.error):
        found: tuple[int, int] = _COUNTS.unpack(path.read_bytes())
        return found
    return 0, 0
