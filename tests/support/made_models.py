"""Models shared by many tests, made once and kept in build/ under a key of the code that makes them."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from support.stack import REPOSITORY

CACHE = REPOSITORY / "build" / "test_models"
_MAKERS = (
    "container/lightbox/tools/model_zoo",
    "scripts/sample_models.py",
    "tests/support/made_models.py",
    "requirements/serve.lock",
)


@cache
def key(makers: tuple[str, ...] = _MAKERS) -> str:
    """Return a model's cache key: a hash of the code that makes it and its dependencies."""
    found = hashlib.sha256()
    for maker in makers:
        path = REPOSITORY / maker
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def made(name: str, make: Callable[[Path], object], makers: tuple[str, ...] = _MAKERS) -> Path:
    """Return a folder filled by ``make``, now or in an earlier run. Only one of several processes makes it.

    Tests must not write there. ``makers`` are the files and folders of the code that makes it.
    """
    folder = CACHE / key(makers)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            partial = folder / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(folder / name)
    return folder / name
