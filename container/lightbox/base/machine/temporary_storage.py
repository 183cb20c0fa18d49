"""TMPDIR: its path, its free space, and the error for too little space."""

from __future__ import annotations

import errno
import shutil
import tempfile

from lightbox.base.errors import NoRoom
from lightbox.base.machine.environment import variable


def temporary_folder() -> str:
    """Return the parent folder of run directories: TMPDIR, else the system's."""
    return variable("TMPDIR") or tempfile.gettempdir()


def free_bytes() -> int:
    """Return the free bytes in it."""
    return shutil.disk_usage(temporary_folder()).free


def is_full(error: BaseException) -> bool:
    """Return whether a write failed because a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def storage_full(needed: str) -> NoRoom:
    """Return the error for a failed write; ``needed`` names the data, and its size if known."""
    return NoRoom(
        f"the server's temporary storage has no room for {needed}",
        f"TMPDIR: {temporary_folder()} has {free_bytes():,} bytes free; free some space, or set it to a folder with "
        "more",
    )
