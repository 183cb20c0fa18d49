"""The reload that stands in a model server: one at a time, and every process can see it until the server answers.

A server goes on with a reload after its caller has given up, and does the next one only then. So the sender of a reload
holds a lock until the answer, however long its caller waits: no other reload comes between, and the supervisor sees
one that stands for too long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from lightbox.core.errors import DeadlineExceeded
from lightbox.core.request_context import RequestContext
from lightbox.machine.shared_files import hold, locked, release

FILE = "reload-{}.lock"
LATE = "the model server did not change its models in time; try again"


class StandingReload(NamedTuple):
    """A reload without an answer: a ``load`` or ``unload`` of a model, and a number that no other one has."""

    change: str
    model: str
    number: tuple[int, int]


def begin(run_dir: Path, server: int, change: str, model: str, context: RequestContext) -> Callable[[], None]:
    """Wait until no reload stands in a server, and let one stand; return what ends that, from whatever thread.

    It also ends when what is returned is garbage. Raises DeadlineExceeded.
    """
    stands = ExitStack()
    lock = stands.enter_context(locked(_file(run_dir, server), context, DeadlineExceeded(LATE)))
    os.write(lock, f"{change} {model}".encode())
    return stands.close


def standing(run_dir: Path, server: int) -> StandingReload | None:
    """Return the reload that stands in a server, None if there is none or its sender is dead."""
    path = _file(run_dir, server)
    try:
        if (free := hold(path, shared=True, flags=os.O_RDONLY)) is not None:
            release(free)
            return None
        status, (change, _, model) = path.stat(), path.read_text().partition(" ")
    except FileNotFoundError:
        return None
    return StandingReload(change, model, (status.st_ino, status.st_mtime_ns))


def _file(run_dir: Path, server: int) -> Path:
    return run_dir / FILE.format(server)
