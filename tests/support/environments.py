"""The virtual environments that the Makefile makes for some tests, and the Pythons for others."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

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


def python_of(minor: int) -> str:
    """Return a Python 3 of this version that can make virtual environments, from PATH or pyenv; skip without one."""
    name = f"python3.{minor}"
    folders = [Path(folder) for folder in os.get_exec_path()]
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True).stdout.strip()
        folders += sorted(Path(root, "versions").glob("*/bin"))
    for python in (folder / name for folder in folders):
        # Of pyenv's shims on PATH, only the selected versions work.
        probe = [str(python), "-c", "import ensurepip, venv"]
        if python.exists() and not subprocess.run(probe, capture_output=True, check=False).returncode:
            return str(python)
    pytest.skip(f"there is no {name} here")
