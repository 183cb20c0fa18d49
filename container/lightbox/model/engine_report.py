"""The engine of each signature, as the embedded model server reports it in the run directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

FOLDER = "engines"
Load = tuple[int, int]
"""Differs for each load of a version."""


class EngineOfSignature(NamedTuple):
    """The engine and, in a sentence, the reason for its choice."""

    model: str
    version: int
    signature: str
    engine: str
    reason: str
    files: str = ""
    """The stamp of the files that were loaded, see ``disk_cache.stamp_of``; empty if unknown."""


def load_of(run_dir: Path, model: str, version: int) -> Load | None:
    """Return the last load of a version; None for one without a report."""
    try:
        status = os.stat(f"{run_dir}/{FOLDER}/{quote(model, safe='')}/{version}.json")  # noqa: PTH116 - a path's objects take longer
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def engines_of(run_dir: Path, model: str, version: int) -> list[EngineOfSignature]:
    """Return the engine of each signature; empty without a report."""
    return list(_read(run_dir / FOLDER / quote(model, safe="") / f"{version}.json", model, version))


def all_engines(run_dir: Path) -> Iterator[EngineOfSignature]:
    """Yield the engines of all models that are, or were, loaded."""
    for path in sorted((run_dir / FOLDER).glob("*/*.json")):
        if path.stem.isdigit():
            yield from _read(path, unquote(path.parent.name), int(path.stem))


def _read(path: Path, model: str, version: int) -> Iterator[EngineOfSignature]:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for name, item in sorted(json.loads(path.read_text()).items()):
            yield EngineOfSignature(model, version, name, item["engine"], item["reason"], item.get("files", ""))
