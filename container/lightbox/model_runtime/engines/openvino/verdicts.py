"""The results of comparing OpenVINO with TensorFlow for a model, and their cache.

A verdict holds for the model's files, OpenVINO's release, the kind of machine and the precision. Any change leads to a
new comparison.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.hardware import processor
from lightbox.model_runtime.engines.setting import IN_MODEL

OPENVINO, TENSORFLOW = "openvino", "tensorflow"
_FORMAT = 1


@dataclass(frozen=True)
class Verdict:
    """The engine of a signature under ``auto``, and the reason."""

    engine: str
    reason: str
    is_equal: bool = False
    """Whether OpenVINO's results were compared with TensorFlow's and matched."""
    lasts: bool = True
    """Whether it may be cached; False if the comparison itself failed."""


Verdicts = Mapping[str, Verdict]
"""By signature."""


@dataclass(frozen=True)
class Key:
    """The conditions of a verdict."""

    model: str
    openvino: str
    machine: str
    precision: str

    @classmethod
    def of(cls, folder: str, precision: str) -> Key:
        """Return the key of a version's folder on this machine."""
        return cls(digest(Path(folder)), metadata.version("openvino"), platform.machine(), precision)


def digest(folder: Path) -> str:
    """Return the SHA-256 of a version's graph and variables."""
    return disk_cache.digest_of(folder)


def recall(folder: str, key: Key, cache: str) -> dict[str, Verdict] | None:
    """Return the cached verdicts from the model's folder or the folder ``cache``, None if there are none."""
    places = [Path(folder, IN_MODEL)]
    if cache:
        places.append(_place(key, cache))
    for place in places:
        content = disk_cache.read(place) or {}
        if (content.get("format"), content.get("holds_for")) != (_FORMAT, asdict(key)):
            continue
        with suppress(TypeError, KeyError, AttributeError):  # of another release, or the model author's own file
            return {str(name): Verdict(**item) for name, item in content["signatures"].items()}
    return None


def remember(place: Path, key: Key, verdicts: Verdicts, beside: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Write the verdicts of all signatures to a file, atomically, ``beside`` what else it holds. Raises OSError."""
    content = {
        "format": _FORMAT,
        "holds_for": asdict(key),
        "signatures": {name: asdict(verdict) for name, verdict in sorted(verdicts.items())},
    }
    disk_cache.write(place, {**beside, **content})


def keep(key: Key, cache: str, verdicts: Verdicts) -> None:
    """Cache verdicts in the folder ``cache``, if there is one; a full disk does not stop the server."""
    lasting = {name: verdict for name, verdict in verdicts.items() if verdict.lasts}
    if cache and lasting:
        with suppress(OSError):
            remember(_place(key, cache), key, lasting)


def _place(key: Key, cache: str) -> Path:
    return Path(cache) / f"verdict-{key.model[:32]}-{key.openvino}-{processor()}-{key.precision}.json"
