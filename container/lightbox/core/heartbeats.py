"""The heartbeats of gunicorn's workers, for the supervisor: a file for each worker, with the time of the last one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def beat(folder: str, process: int) -> None:
    """Note a heartbeat of a process."""
    with suppress(OSError):  # a full disk
        _file(folder, process).touch()


def last_beat(folder: str, process: int) -> float | None:
    """Return the time of the last heartbeat; None for a process that has none."""
    with suppress(FileNotFoundError):
        return _file(folder, process).stat().st_mtime
    return None


def forget(folder: str, process: int) -> None:
    """Remove the file of a process that has ended."""
    _file(folder, process).unlink(missing_ok=True)


def _file(folder: str, process: int) -> Path:
    return Path(folder, f"heartbeat-{process}")
