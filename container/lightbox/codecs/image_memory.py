"""The memory of images in decoding: an image takes a hundred times its file, so it counts by itself."""

from __future__ import annotations

import fcntl
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightbox.base.errors import TooLarge, Unavailable
from lightbox.base.machine.shared_files import hold, release, shared_numbers
from lightbox.base.request_context import SETTING, RequestContext, Turns
from lightbox.base.telemetry.metrics import claim_slot

COUNTED = 4 << 20
"""Smaller images need not count: the decoding slots bound them."""
PAUSE_SECONDS = 0.005
_ROWS = 256
"""More than processes: at most 64 workers and the gRPC front, twice during a replacement."""


class ImageMemory:
    """At most ``size`` bytes for the images that all processes of a run decode.

    An image that does not fit at the moment waits until others are done, and lets none pass. The processes meet in
    ``run_dir``; without one this process is alone.
    """

    def __init__(self, size: float = math.inf, run_dir: Path | None = None) -> None:
        self.size = size
        self.waiting = 0
        """Threads of this process that wait for memory."""
        self._turns = Turns(1)
        self._lock = threading.Lock()
        self._row, self._held = 0, memoryview(bytearray(8)).cast("q")
        self._turn: int | None = None
        """Descriptor of a file whose lock has the process that is next."""
        if run_dir is not None:
            folder = run_dir / "pictures"
            self._row, self._slot = claim_slot(folder)
            self._held = shared_numbers(folder / "held", _ROWS)
            self._held[self._row] = 0  # of the process before
            self._clear_rows_of_ended(folder)
            self._turn = os.open(folder / "turn.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def _clear_rows_of_ended(self, folder: Path) -> None:
        for row in range(_ROWS):
            if self._held[row] and (slot := hold(folder / f"{row}.lock")) is not None:
                self._held[row] = 0
                release(slot)

    @contextmanager
    def hold(self, size: int, context: RequestContext) -> Iterator[None]:
        """Hold ``size`` bytes; wait for them at most half of the request's time, in the stage "wait".

        Raises TooLarge for more than there are, and Unavailable for more than others leave.
        """
        if self.size == math.inf:
            yield
            return
        if size > self.size:
            raise TooLarge(
                f"decoding the image takes {size >> 20} MiB of memory, and the pictures of all requests together get "
                f"{int(self.size) >> 20} MiB ({SETTING})"
            )
        self._take(size, context)
        try:
            yield
        finally:
            self._change(-size)

    def _take(self, size: int, context: RequestContext) -> None:
        with self._lock:
            self.waiting += 1
        try:
            with context.stage("wait"), context.within(context.remaining() / 2):
                if not self._turns.acquire(context.remaining()):
                    raise busy(size)
                try:
                    self._wait_for(size, context)
                finally:
                    self._turns.release()
        finally:
            with self._lock:
                self.waiting -= 1

    def _wait_for(self, size: int, context: RequestContext) -> None:
        """Wait as the first of this process: for its turn among the processes, then for the memory."""
        if context.poll(self._is_next, PAUSE_SECONDS) is None:
            raise busy(size)
        try:
            if context.poll(lambda: sum(self._held) + size <= self.size or None, PAUSE_SECONDS) is None:
                raise busy(size)
            self._change(size)
        finally:
            if self._turn is not None:
                fcntl.flock(self._turn, fcntl.LOCK_UN)

    def _is_next(self) -> bool | None:
        if self._turn is not None:
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
        return True

    def _change(self, by: int) -> None:
        with self._lock:
            self._held[self._row] += by


def busy(size: int = 0) -> Unavailable:
    """Return the error for an image that gets no memory in time."""
    what = f"decoding the image takes {size >> 20} MiB of memory" if size else "decoding images takes memory"
    return Unavailable(f"try again: {what}, which other requests hold ({SETTING})")
