"""stdout and stderr of a process, as ``sys`` has them: logs never fail, and the loss of results has its own error."""

from __future__ import annotations

import errno
import io
import os
import sys

from typing_extensions import Buffer, override

from lightbox.telemetry import logs


class OutputLost(SystemExit):
    """A command's results cannot be written to stdout. ``code`` is its exit code, and ``reason`` a sentence."""

    def __init__(self, error: OSError) -> None:
        self.reader_ended = error.errno == errno.EPIPE
        super().__init__(141 if self.reader_ended else 1)  # 141: as a shell names an end by SIGPIPE
        self.reason = f"stdout: {error.strerror}"


class _Log(io.FileIO):
    @override
    def write(self, data: Buffer, /) -> int:
        content = bytes(data)
        logs.write(content, self.fileno())
        return len(content)


class _Results(io.FileIO):
    @override
    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # takes what is flushed later
            raise OutputLost(error) from error


def log_to(descriptor: int) -> io.TextIOWrapper:
    """Return a stream for logs: a write is one system call, and never raises."""
    return io.TextIOWrapper(
        _Log(descriptor, "w", closefd=False), "utf-8", "backslashreplace", newline="\n", write_through=True
    )


def results() -> io.TextIOWrapper:
    """Return stdout as a stream whose writes raise OutputLost."""
    raw = _Results(1, "w", closefd=False)
    encoding, errors = (sys.stdout.encoding, sys.stdout.errors) if sys.stdout else ("utf-8", None)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=raw.isatty())
