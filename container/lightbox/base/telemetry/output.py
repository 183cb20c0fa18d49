"""stdout and stderr of a process, as ``sys`` has them.

Logs never fail, and the loss of results has its own error. Neither writes a control character but tabs and line ends:
names and responses come from others, and control the terminal that shows them.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import suppress

from typing_extensions import Buffer, override

from lightbox.base import control_characters
from lightbox.base.telemetry import logs


class OutputLost(SystemExit):
    """A command's results cannot be written to stdout. ``code`` is its exit code, and ``reason`` a sentence."""

    def __init__(self, error: OSError) -> None:
        self.reader_ended = error.errno == errno.EPIPE
        super().__init__(141 if self.reader_ended else 1)  # 141: as a shell names an end by SIGPIPE
        self.reason = f"stdout: {error.strerror}"


class _Log(io.FileIO):
    def __init__(self, descriptor: int, waits: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._target = descriptor if waits else _without_waiting(descriptor)

    @override
    def write(self, data: Buffer, /) -> int:
        content = bytes(data)
        logs.write(content, self._target)
        return len(content)


def _without_waiting(descriptor: int) -> int:
    """Return another descriptor of the same pipe that does not block; the given one itself if it is no pipe.

    The flag of the given one belongs to child processes, too, which would lose lines.
    """
    with suppress(OSError):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    return descriptor


class _Results(io.FileIO):
    @override
    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # takes what is flushed later
            raise OutputLost(error) from error


class _Text(io.TextIOWrapper):
    @override
    def write(self, text: str, /) -> int:
        super().write(control_characters.shown(text))
        return len(text)


def log_to(descriptor: int, waits: bool = True) -> io.TextIOWrapper:
    """Return a stream for logs: a write is one system call, and never raises.

    Without ``waits`` a write waits at most ``logs.WAIT_SECONDS`` for a full pipe; lines are dropped then.
    """
    return _Text(_Log(descriptor, waits), "utf-8", "backslashreplace", newline="\n", write_through=True)


def drawing() -> io.TextIOWrapper:
    """Return stderr for what moves the cursor, with text of our own alone."""
    return io.TextIOWrapper(_Log(2, waits=True), "utf-8", "backslashreplace", newline="\n", write_through=True)


def results() -> io.TextIOWrapper:
    """Return stdout as a stream whose writes raise OutputLost."""
    raw = _Results(1, "w", closefd=False)
    encoding, errors = (sys.stdout.encoding, sys.stdout.errors) if sys.stdout else ("utf-8", None)
    return _Text(io.BufferedWriter(raw), encoding, errors, line_buffering=raw.isatty())
