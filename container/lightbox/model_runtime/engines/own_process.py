"""Runs a process that may crash or hang because of a model."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

TIME_LIMIT_SECONDS = 600
STILL_SECONDS = 60
"""A child without CPU time for this many seconds is stuck: where OpenVINO 2026.4 fails to read a graph it may corrupt
the heap. Then the child aborts, or waits forever for malloc's lock."""
LATE = "took more than"
"""Begins the ending of a child that was killed at its time limit."""
_until: ContextVar[float | None] = ContextVar("until", default=None)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Give all children that this thread runs inside the block ``seconds`` together, 0 for no such limit."""
    token = _until.set(time.monotonic() + seconds if seconds else None)
    try:
        yield
    finally:
        _until.reset(token)


def run(command: Sequence[str], more: int = 0, most_seconds: float = TIME_LIMIT_SECONDS) -> tuple[bytes, str]:
    """Run a command, return its output and how it ended; kill it when it is stuck or takes too long.

    Of the time that is left for several children it takes an equal part; ``more`` is the number of those behind it.
    """
    until = _until.get()
    seconds = most_seconds if until is None else min(most_seconds, (until - time.monotonic()) / (1 + more))
    if seconds <= 0:
        return b"", f"{LATE} the time that was left"
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdout=output, stderr=errors)  # noqa: S603 - our own command
        try:
            why = _watch(child, seconds)
        finally:
            child.kill()  # if it has not ended, also when this process is stopped meanwhile
            code = child.wait()
        output.seek(0)
        errors.seek(0)
        return output.read(), why or _ending(code, errors.read())


def _watch(child: subprocess.Popen[bytes], seconds: float) -> str | None:
    """Wait for a child's end; return the reason to kill it, None if it has ended."""
    began = moved = time.monotonic()
    used = 0.0
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(0.01, min(1.0, began + seconds - time.monotonic())))
            return None
        now, before, used = time.monotonic(), used, _processor_seconds(child.pid)
        if used != before:
            moved = now
        if now - moved >= STILL_SECONDS:
            return f"used no processor time for {STILL_SECONDS:g} s"
        if now - began >= seconds:
            return f"{LATE} {seconds:.3g} s"


def _processor_seconds(pid: int) -> float:
    """Return a process's CPU seconds; see proc_pid_stat(5). Its name, in parentheses, may hold blanks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ending(code: int, errors: bytes) -> str:
    if code < 0:
        return f"ended by signal {-code}"
    # Indented lines are a traceback's frames, and TensorFlow's nodes below its sentence.
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip() and not line[0].isspace()]
    return f"failed: {lines[-1]}" if lines else f"failed with exit code {code}"
