"""The log of a model server, reduced to warnings, errors, and the choice of an engine."""

from __future__ import annotations

import re
from pathlib import Path

_BOILERPLATE = re.compile(r"WARNING: All log messages before absl::InitializeLog\(\) is called|I0000 00:00:\d")
"""TensorFlow's lines before its log is set up, in another format."""
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+:? (?P<text>(?P<level>[IWEF]) .*)")
_ENGINE = "I engine of "


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
