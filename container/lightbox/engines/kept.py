"""Files in which is kept what was found out about a model."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

_CHUNK = 1 << 20


def digest(files: Iterable[Path]) -> str:
    """Return the SHA-256 of files with their names. Raises OSError."""
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.name} {path.stat().st_size}\n".encode())
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
