"""Runs a process that may die, or get stuck, of a model."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TIME_LIMIT_SECONDS = 600
STILL_SECONDS = 60
"""A child that uses no processor time for so long is stuck: where OpenVINO 2026.4 fails to read a graph it may damage
the heap. Then the child aborts, or waits for ever for malloc's lock, which no thread holds."""


def run(command: Sequence[str]) -> tuple[bytes, str]:
    """Run a command and return its output and how it ended; kill it when it takes too long or is stuck."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdout=output, stderr=errors)  # noqa: S603 - our own command
        try:
            why = _watch(child)
        finally:
            child.kill()  # where it has not ended; also when this process is told to stop meanwhile
            code = child.wait()
        output.seek(0)
        errors.seek(0)
        return output.read(), why or _ending(code, errors.read())


def _watch(child: subprocess.Popen[bytes]) -> str | None:
    """Wait for a child's end; return why it is to be killed, None where it has ended."""
    began = moved = time.monotonic()
    used = 0.0
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(1.0)
            return None
        now, before, used = time.monotonic(), used, _processor_seconds(child.pid)
        if used != before:
            moved = now
        if now - moved >= STILL_SECONDS:
            return f"used no processor time for {STILL_SECONDS:g} s"
        if now - began >= TIME_LIMIT_SECONDS:
            return f"took more than {TIME_LIMIT_SECONDS:g} s"


def _processor_seconds(pid: int) -> float:
    """Return what a process has used of processors; see proc_pid_stat(5). Its name, in parentheses, may hold blanks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ending(code: int, errors: bytes) -> str:
    if code < 0:
        return f"ended by signal {-code}"
    lines = errors.decode(errors="replace").strip().splitlines()
    return f"failed: {lines[-1]}" if lines else f"failed with exit code {code}"
