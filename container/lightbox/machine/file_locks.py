"""Locks between processes: a file that exists while it is held. The kernel lets go of one whose holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightbox.core.errors import LightboxError
from lightbox.core.request_context import RequestContext

LOCK_PAUSE_SECONDS = 0.02


@contextmanager
def locked(path: Path, context: RequestContext, busy: LightboxError) -> Iterator[int]:
    """Hold a lock and give its file's descriptor. Raises ``busy`` when others hold it until the request's deadline."""
    while (lock := try_lock(path)) is None:
        if context.remaining() <= 0:
            raise busy
        time.sleep(LOCK_PAUSE_SECONDS)
    try:
        yield lock
    finally:
        # Before it is given up: who opened it meanwhile sees that it is not the one any more.
        path.unlink(missing_ok=True)
        os.close(lock)


def try_lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """Return the descriptor of a lock's file, None while another process or thread holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(lock).st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None
