"""The pending reload of a model server: one at a time, visible to all processes until the server answers.

A server continues a reload after its caller's deadline, and starts the next one only then. So the sender holds a lock
until the response, however long its caller waits: no other reload comes in between, and the supervisor sees a reload
that is pending for too long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from lightbox.base.errors import DeadlineExceeded
from lightbox.base.machine.shared_files import hold, locked, release
from lightbox.base.request_context import RequestContext

FILE = "reload-{}.lock"
LATE = "the model server did not change its models in time; try again"


class PendingReload(NamedTuple):
    """A reload without a response: a ``load`` or ``unload`` of a model, and its unique number."""

    change: str
    model: str
    number: tuple[int, int]


def begin(run_dir: Path, server: int, change: str, model: str, context: RequestContext) -> Callable[[], None]:
    """Wait until a server has no pending reload, and register one; return the function that ends it, in any thread.

    Garbage collection of that function ends it too. Raises DeadlineExceeded.
    """
    stands = ExitStack()
    lock = stands.enter_context(locked(_file(run_dir, server), context, DeadlineExceeded(LATE)))
    os.write(lock, f"{change} {model}".encode())
    return stands.close


def find_pending(run_dir: Path, server: int) -> PendingReload | None:
    """Return a server's pending reload, None if there is none or its sender is dead."""
    path = _file(run_dir, server)
    try:
        if (free := hold(path, shared=True, flags=os.O_RDONLY)) is not None:
            release(free)
            return None
        status, (change, _, model) = path.stat(), path.read_text().partition(" ")
    except FileNotFoundError:
        return None
    return PendingReload(change, model, (status.st_ino, status.st_mtime_ns))


def _file(run_dir: Path, server: int) -> Path:
    return run_dir / FILE.format(server)
