"""Reads a stack's log from a pipe into a file, and can end or sleep."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOK_SECONDS = 0.05


class LogReader:
    """The reader of a named pipe in ``folder``, until ``close``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.pipe, self.path = folder / "log.pipe", folder / "lightbox.log"
        self.pipe.unlink(missing_ok=True)
        os.mkfifo(self.pipe)
        self._file = self.path.open("wb")
        self._pipe, self._awake, self._closed = self._open(), threading.Event(), False
        self._awake.set()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _open(self) -> int:
        return os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)

    def _read(self) -> None:
        while not self._closed:
            self._awake.wait()
            if select.select([self._pipe], [], [], LOOK_SECONDS)[0]:
                self._file.write(os.read(self._pipe, 1 << 16))
                self._file.flush()

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Read nothing in this block."""
        self._awake.clear()
        try:
            yield
        finally:
            self._awake.set()

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Have the pipe closed in this block, so that writing to it fails."""
        self._closed = True
        self._thread.join()
        os.close(self._pipe)
        try:
            yield
        finally:
            self._pipe, self._closed = self._open(), False
            self._thread = threading.Thread(target=self._read)
            self._thread.start()

    def close(self) -> None:
        """End."""
        self._closed = True
        self._awake.set()
        self._thread.join()
        os.close(self._pipe)
        self._file.close()
