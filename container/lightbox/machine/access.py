"""Files and folders that the user may not read."""

from __future__ import annotations

import os
from pathlib import Path


def is_file(path: Path) -> bool:
    """Return whether a path is a file that the user can reach; unlike ``Path.is_file`` it never raises."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def is_dir(path: Path) -> bool:
    """Return whether a path is a folder that the user can reach; unlike ``Path.is_dir`` it never raises."""
    try:
        return path.is_dir()
    except PermissionError:
        return False


def access_problem(folder: Path) -> str | None:
    """Return a sentence if the user may not read a folder or the path to it, None if it can be read or is none."""
    try:
        if not folder.is_dir():
            return None
        with os.scandir(folder):
            pass
        (folder / ".").stat()  # a folder may be listed without access to its files
    except PermissionError:
        return f"{folder} cannot be read by the user {os.geteuid()}, who runs Lightbox: let that user read it"
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}"
    return None
