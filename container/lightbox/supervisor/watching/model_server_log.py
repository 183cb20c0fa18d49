"""The log of a model server: its warnings, errors and choices of engines, and the model that cannot be loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from lightbox.model.catalogue import PlannedModel

_BOILERPLATE = re.compile(r"WARNING: All log messages before absl::InitializeLog\(\) is called|I0000 00:00:\d")
"""TensorFlow's lines before its log is set up, in another format."""
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+:? (?P<text>(?P<level>[IWEF]) .*)")
_ENGINE = "I engine of "
_UNLOADABLE = re.compile(r"\{name: (?P<name>\S+) version: (?P<version>-?\d+)\} due to error: (?P<reason>[^\n]*)")


class ModelServerLog:
    """Edits a model server's lines. ``models`` is the folder of its links to the users' models."""

    def __init__(self, models: Path, verbose: bool) -> None:
        """With ``verbose`` every record is kept."""
        self._models = f"{models}/"
        self._verbose = verbose

    def edit(self, line: str) -> str | None:
        """Return a line without its time, and with models by their names; None for a dropped one."""
        if _BOILERPLATE.match(line):
            return None
        if record := _RECORD.fullmatch(line):
            line = record["text"]
            if record["level"] == "I" and not self._verbose and not line.startswith(_ENGINE):
                return None
        return line.replace(self._models, "")


def unloadable(said: str, models: Mapping[str, PlannedModel]) -> str | None:
    """Return a sentence about the model that a model server reports as unloadable, None if it names none."""
    result = _UNLOADABLE.search(said)
    if result is None or result["name"] not in models:
        return None
    model = models[result["name"]]
    folder = str(model.versions_dir or model.base_path)
    return (
        f"LIGHTBOX_MODEL_DIR: version {result['version']} of the model {result['name']!r} in {folder} "
        f"cannot be loaded: {result['reason'].rstrip('}, ').replace(str(model.base_path), folder)}"
    )
