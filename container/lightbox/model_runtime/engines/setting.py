"""The setting that ``lightbox optimize`` has found for a model, in a file beside the model.

It holds for the model's file, the release of its engine and the kind of processor. Options and settings that name an
engine or a precision win over it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from lightbox.model_runtime.engines import AUTO, ENGINES, OPENING, disk_cache
from lightbox.model_runtime.engines.hardware import LEVELS, PRECISIONS, processor
from lightbox.model_runtime.formats import platform

log = logging.getLogger("model_server")

IN_MODEL = Path("assets.extra") / "lightbox_engine.json"
"""The one file of what is known of a version and its engines: the comparison of ``auto``, a setting and its report."""


@dataclass(frozen=True)
class Setting:
    """How a model is run. The default is what ``auto`` does by itself."""

    engine: str = AUTO
    precision: str = PRECISIONS[0]
    level: str = LEVELS[0]
    """How far ONNX Runtime optimises the graph."""
    threads: int = 1
    """Of one call."""
    fast_decode: bool = False
    """The option of this name."""

    def __post_init__(self) -> None:
        known = self.engine in (AUTO, *ENGINES) and self.precision in PRECISIONS and self.level in LEVELS
        if not known or type(self.threads) is not int or self.threads < 1 or type(self.fast_decode) is not bool:
            raise ValueError(f"there is no such setting: {self}")

    def __str__(self) -> str:
        level = f" {self.level}" if self.level != LEVELS[0] else ""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.engine}{level} {self.precision}{threads}{', fast_decode' if self.fast_decode else ''}"


TRIED: ContextVar[Setting | None] = ContextVar("tried", default=None)
"""Takes the place of the file's, to measure it."""


def key_of(folder: Path, setting: Setting) -> dict[str, str]:
    """Return what a setting holds for, by name. Raises OSError if the model cannot be read."""
    releases = []
    for engine in OPENING[platform(folder)] if setting.engine == AUTO else [setting.engine]:
        with suppress(metadata.PackageNotFoundError):
            releases.append(f"{engine} {metadata.version(engine)}")
    return {"file": disk_cache.digest_of(folder), "engine": ", ".join(releases), "processor": processor()}


def keep(folder: Path, setting: Setting, report: Mapping[str, Any]) -> None:
    """Write a setting and its report into a version's folder. Raises OSError."""
    found = {"holds_for": key_of(folder, setting), "setting": asdict(setting), "report": dict(report)}
    disk_cache.write(folder / IN_MODEL, (disk_cache.read(folder / IN_MODEL) or {}) | {"optimized": found})


def setting_of(folder: Path, own: Mapping[str, Any]) -> tuple[Setting | None, str]:
    """Return the setting for a version's folder where the options ``own`` leave it open, and why there is none.

    The reason is empty without a setting in the folder.
    """
    if tried := TRIED.get():
        return tried, ""
    try:
        content = disk_cache.read(folder / IN_MODEL) or {}
        setting, holds_for = Setting(**content["optimized"]["setting"]), content["optimized"]["holds_for"]
        now = key_of(folder, setting)
    except KeyError:
        return None, ""
    except (OSError, TypeError, ValueError):
        return None, f"{folder / IN_MODEL} cannot be used: run lightbox optimize again"
    if named := [key for key in ("engine", "precision") if own.get(key, AUTO) != AUTO]:
        return None, f"the options set the {' and the '.join(named)}"
    if other := [f"{name} {holds_for.get(name)!r}" for name, value in now.items() if holds_for.get(name) != value]:
        return None, f"it was found for the {' and the '.join(other)}: run lightbox optimize again"
    return setting, ""
