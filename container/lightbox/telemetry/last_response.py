"""When a model has last answered a request, told by the workers to the supervisor: one number that all share."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

from lightbox.telemetry.logs import FinishedRequest

FILE = "last_response"


class LastResponse:
    """Seconds of the monotonic clock, the same in all processes, in a file of the run directory mapped into memory.

    An observer of the workers' requests.
    """

    def __init__(self, run_dir: Path) -> None:
        path = run_dir / FILE
        with path.open("ab+") as file:
            file.truncate(struct.calcsize("d"))
            self._seconds = memoryview(mmap.mmap(file.fileno(), struct.calcsize("d"))).cast("d")

    @property
    def at(self) -> float:
        """When a model has last answered with 200, in whatever worker; 0 before the first time."""
        return self._seconds[0]

    def started(self) -> None:
        """See Observer."""

    def responded(self, request: FinishedRequest) -> None:
        """See Observer."""
        if request.status == 200 and request.context.model is not None:
            self._seconds[0] = time.monotonic()

    def closed(self) -> None:
        """See Observer."""
