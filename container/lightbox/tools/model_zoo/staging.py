"""Building beside the place and renaming into it, so that a killed run leaves nothing that looks finished."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightbox.base.telemetry import say

PREFIX = ".partial-"


@contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """Give a fresh folder inside `directory` (made if missing), removed at the end.

    One process at a time: a second one waits. Whatever a killed one left is removed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        remove_leftovers(directory)
        try:
            yield Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
        finally:
            remove_leftovers(directory)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory's lock, which the system releases however the process ends."""
    lock = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say.progress(f"another run is writing to {directory}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def remove_leftovers(directory: Path) -> None:
    """Remove the folders of runs that were killed; the caller holds the lock."""
    for leftover in directory.glob(f"{PREFIX}*"):
        shutil.rmtree(leftover)


def replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{PREFIX}{path.name}")
    partial.write_text(text)
    partial.replace(path)
