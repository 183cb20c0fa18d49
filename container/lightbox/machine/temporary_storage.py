"""TMPDIR: where it is, and what is told when it has too little space."""

from __future__ import annotations

import errno
import shutil
import tempfile

from lightbox.core.errors import NoRoom
from lightbox.machine.environment import variable


def temporary_folder() -> str:
    """Return the folder in which a run makes its own: TMPDIR, else the system's."""
    return variable("TMPDIR") or tempfile.gettempdir()


def free_bytes() -> int:
    """Return the bytes that can still be written there."""
    return shutil.disk_usage(temporary_folder()).free


def is_full(error: BaseException) -> bool:
    """Tell whether a write failed because a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def storage_full(needed: str) -> NoRoom:
    """Return the error for something that had to be written; ``needed`` says what, and its bytes where known."""
    return NoRoom(
        f"TMPDIR: {temporary_folder()} has {free_bytes():,} bytes free, too few for {needed}; "
        "free some space there, or set TMPDIR to a folder with more"
    )
