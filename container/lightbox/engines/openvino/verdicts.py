"""What was found out about OpenVINO and a model, and where it is remembered.

A verdict holds for the model's files, OpenVINO's release, the kind of machine and the precision: under
anything else it is measured again.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from lightbox.engines import disk_cache
from lightbox.engines.hardware import processor

OPENVINO, TENSORFLOW = "openvino", "tensorflow"
IN_MODEL = Path("assets.extra") / "lightbox_engine.json"
"""The place of a verdict that travels with its model."""

_FORMAT = 1


@dataclass(frozen=True)
class Verdict:
    """Which engine answers a signature under ``auto``, and why."""

    engine: str
    reason: str
    is_equal: bool = False
    """OpenVINO's answers were compared with TensorFlow's and were the same."""
    lasts: bool = True
    """It would be the same another time; False where the comparison itself could not be made."""


Verdicts = Mapping[str, Verdict]
"""By signature."""


@dataclass(frozen=True)
class Key:
    """What a verdict holds for."""

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
    """Return what is remembered in the model's folder or in the folder ``cache``, None where nothing is."""
    places = [Path(folder, IN_MODEL)]
    if cache:
        places.append(_place(key, cache))
    for place in places:
        content = disk_cache.read(place) or {}
        if (content.get("format"), content.get("holds_for")) != (_FORMAT, asdict(key)):
            continue
        with suppress(TypeError, KeyError, AttributeError):  # another release's, or the model's author's own
            return {str(name): Verdict(**item) for name, item in content["signatures"].items()}
    return None


def remember(place: Path, key: Key, verdicts: Verdicts) -> None:
    """Write the verdicts of all signatures to a file, at once or not at all. Raises OSError."""
    content = {
        "format": _FORMAT,
        "holds_for": asdict(key),
        "signatures": {name: asdict(verdict) for name, verdict in sorted(verdicts.items())},
    }
    disk_cache.write(place, content)


def keep(key: Key, cache: str, verdicts: Verdicts) -> None:
    """Remember in the folder ``cache``, if there is one; a full disk is no reason not to serve."""
    lasting = {name: verdict for name, verdict in verdicts.items() if verdict.lasts}
    if cache and lasting:
        with suppress(OSError):
            remember(_place(key, cache), key, lasting)


def _place(key: Key, cache: str) -> Path:
    return Path(cache) / f"verdict-{key.model[:32]}-{key.openvino}-{processor()}-{key.precision}.json"
