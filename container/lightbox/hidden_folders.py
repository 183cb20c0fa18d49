"""Folders of this machine that callers are not told: texts of the model server and of users' code name them.

A process sets them once, when it knows its settings; the log keeps every text as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_hidden: list[tuple[re.Pattern[str], str]] = []


def hide(folders: Mapping[str, Path]) -> None:
    """Have each folder, and what it resolves to, told by its name from now on; the root folder is left alone."""
    spellings = {str(path): name for name, folder in folders.items() for path in (folder, folder.resolve())}
    longest_first = sorted((path for path in spellings if path != "/"), key=len, reverse=True)
    _hidden[:] = [(_folder(path), spellings[path]) for path in longest_first]


def without_folders(text: str) -> str:
    """Return a text for a caller: hidden folders are replaced by their names, what lies below them stays."""
    for folder, name in _hidden:
        text = folder.sub(lambda _, name=name: name, text)  # type: ignore[misc]
    return text


def _folder(path: str) -> re.Pattern[str]:
    """A folder as a whole: neither the end of a longer path nor the beginning of another name."""
    return re.compile(rf"(?<![\w./-]){re.escape(path)}(?![\w-])")
