"""What is kept of a model from one start to the next: what was found out about it, and what was compiled.

Each model has a folder of its own, for its files and the kind of processor. A process that is killed at any moment, or
runs beside others, leaves whole files, or ones that their reader passes over.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from lightbox.engines.hardware import processor
from lightbox.formats import SAVED_MODEL_FILES, model_file

MOST_BYTES = 2 << 30
"""What all folders may hold together; with more, those of the models that were not loaded for the longest time go."""
_CHUNK = 1 << 20
_FOLDER = re.compile(r"[0-9a-f]{32}-[0-9a-f]{8}")


def private(folder: Path) -> Path:
    """Return a folder that is this user's alone, made where it is missing.

    Raises OSError where it cannot be made or written, and where it is another user's: what is kept there is executed.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    for status in (folder.lstat(), folder.stat()):  # a link is its owner's to change
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "it cannot be written", str(folder))
    return folder


def of_model(root: str, version: Path) -> str:
    """Return the folder below ``root`` for what is kept of a version's model on this kind of processor.

    It is noted as used, and others give way to it. Empty where nothing can be kept.
    """
    if not root:
        return ""
    try:
        own = Path(root, f"{digest_of(version)[:32]}-{processor()}")
        own.mkdir(parents=True, exist_ok=True)
        os.utime(own)
        make_room(Path(root), MOST_BYTES)
    except OSError:
        return root  # what needs it says so
    return str(own)


def make_room(root: Path, most: int) -> None:
    """Remove models' folders, those used longest ago first, until all hold at most so many bytes; the newest stays.

    One that a process writes to just now stays too. What a process has mapped it keeps. Raises OSError.
    """
    folders = [entry for entry in os.scandir(root) if _FOLDER.fullmatch(entry.name) and entry.is_dir()]
    total = 0
    for at, folder in enumerate(sorted(folders, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)):
        total += sum(file.stat().st_size for file in Path(folder).iterdir())
        if at and total > most:
            _remove(folder.path)


def _remove(folder: str) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def digest_of(version: Path) -> str:
    """Return the SHA-256 of the files of a version's model, with their names. Raises OSError."""
    file = model_file(version)
    files = file.parts() if file else [version / SAVED_MODEL_FILES[0], *sorted((version / "variables").glob("*"))]
    facts = ((path, path.stat()) for path in files)
    return _digest(tuple((path, status.st_ino, status.st_size, status.st_mtime_ns) for path, status in facts))


@lru_cache(maxsize=256)
def _digest(files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """Each is known by its path, inode, size and time: a load asks several times, and files may be large."""
    total = hashlib.sha256()
    for path, _, size, _ in files:
        total.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total.update(chunk)
    return total.hexdigest()


def write_whole(place: Path, text: str) -> None:
    """Write a file, at once or not at all. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=place.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(place)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
