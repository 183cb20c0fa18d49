"""The virtual environments that the Makefile makes for some tests."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from support.isolation import clean_environ
from support.stack import REPOSITORY


def environment(name: str) -> Path:
    """Return the environment ``name``, such as ``.venv-ray``, made where it is missing, by one process at a time."""
    lock = REPOSITORY / "build" / f"{name}.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        subprocess.run(["make", "--silent", f"{name}/.ready"], cwd=REPOSITORY, env=clean_environ(), check=True)
    return REPOSITORY / name
