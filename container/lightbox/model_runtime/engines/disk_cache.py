"""Cached facts of models, from one start to the next, in small files with a checksum.

Each file is for a model's files and a kind of processor. Writes are atomic, also for killed and concurrent processes;
the checksum detects other damage.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from lightbox.model_runtime.formats import SAVED_MODEL_FILES, model_file

log = logging.getLogger("model_server")

IN_RUN_DIR = "engine"
_SUM = "sha256"
_CHUNK = 1 << 20


def private_folder(folder: Path) -> Path:
    """Return a folder that is private to this user; create it if missing.

    Raises OSError if it cannot be created or written, or belongs to another user: its content is trusted.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    for status in (folder.lstat(), folder.stat()):  # the owner of a link can change it
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "it cannot be written", str(folder))
    return folder


def kept_folder() -> Path | None:
    """Return the cache folder that outlives a run, None if XDG_CACHE_HOME is empty.

    Raises OSError if it cannot be private to this user.
    """
    folder = os.environ.get("XDG_CACHE_HOME", str(Path(os.environ.get("HOME") or "/", ".cache")))
    return private_folder(Path(folder).absolute() / "lightbox") if folder else None


def cache_folder(run_dir: Path) -> tuple[Path, str]:
    """Return the cache folder, one of the run with the reason if it cannot outlive the run."""
    try:
        return kept_folder() or run_dir / IN_RUN_DIR, ""
    except OSError as error:
        return run_dir / IN_RUN_DIR, f"{error.filename}: {error.strerror}"


def digest_of(version: Path) -> str:
    """Return the SHA-256 of a version's model files and their names. Raises OSError."""
    return _digest(_facts(_model_files(version)))


def stamp_of(version: Path) -> str:
    """Return a value that differs after each change of what a load reads: the model's files, their INT8 model and
    setting, and the options beside the version. Nothing is read. Raises OSError."""
    files = _model_files(version)
    folders = {folder / "assets.extra" for folder in (version, files[0].parent)}
    more = (path for folder in folders for path in (*folder.glob("*"), *folder.glob("*/*")))
    files += sorted(filter(Path.is_file, more))
    options = (folder / "code" / "lightbox.json" for folder in (version.parent, version.parent.parent))
    facts = repr([(str(path), *others) for path, *others in _facts([*files, *filter(Path.is_file, options)])])
    return hashlib.sha256(facts.encode()).hexdigest()


def _model_files(version: Path) -> list[Path]:
    file = model_file(version)
    inside = (path for folder in ("assets", "variables") for path in sorted((version / folder).glob("*")))
    return file.parts() if file else [version / SAVED_MODEL_FILES[0], *filter(Path.is_file, inside)]


def _facts(files: Iterable[Path]) -> tuple[tuple[Path, int, int, int], ...]:
    facts = ((path, path.stat()) for path in files)
    return tuple((path, status.st_ino, status.st_size, status.st_ctime_ns) for path, status in facts)


@lru_cache(maxsize=256)
def _digest(files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """Cached by path, inode, size and mtime: a load calls it several times, and files may be large."""
    total = hashlib.sha256()
    for path, _, size, _ in files:
        total.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total.update(chunk)
    return total.hexdigest()


def read(place: Path) -> dict[str, Any] | None:
    """Return a file's content, None if it is missing or its checksum is wrong, which is logged."""
    try:
        content: dict[str, Any] = json.loads(place.read_bytes())
        if _SUM not in content:  # not written by ``write``
            return None
        if content.pop(_SUM) == _sum(content):
            return content
    except OSError:
        return None
    except (ValueError, TypeError, AttributeError):
        pass
    log.warning("%s is damaged: its facts are determined again", place)
    return None


def write(place: Path, content: Mapping[str, Any]) -> None:
    """Write a file atomically. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=place.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps({**content, _SUM: _sum(content)}, indent=2) + "\n")
        Path(name).chmod(0o644)
        Path(name).replace(place)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _sum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
