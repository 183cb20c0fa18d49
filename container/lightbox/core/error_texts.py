"""Texts of errors, and what they quote, at a length that can be answered and logged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

MESSAGE_LIMIT = 1000
"""Characters of an error message that reach the caller."""
ECHO_LIMIT = 95
"""Bytes of one quoted text or one word of a message: the caller's own words do not come back at length, and not
more than 200 bytes of them where a message has two of them."""
_SEARCHED = 20_000
_ECHO = re.compile(r"""(?<!\w)'[^'\\]*(?:\\.[^'\\]*)*(?:'|$)|(?<!\w)"[^"\\]*(?:\\.[^"\\]*)*(?:"|$)|\S+""", re.DOTALL)
_hidden: list[tuple[re.Pattern[str], str]] = []


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut a long text in its middle, so that both its ends can be read."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]} … {text[-(limit - head - 3) :]}"


def shown(value: object, most: int) -> str:
    """Return the first characters of what a caller has sent in JSON, which may be nested deeper than Python writes."""
    try:
        return str(value)[:most]
    except RecursionError:
        return f"{type(value).__name__} nested too deep"


def shorten_echoes(message: str) -> str:
    """Cut every quoted text and every word that is longer than ECHO_LIMIT in its middle."""
    if len(message) > _SEARCHED:  # without a space, which would make two words of one
        message = f"{message[: _SEARCHED // 2]}…{message[-_SEARCHED // 2 :]}"
    return _ECHO.sub(_shortened, message)


def _shortened(match: re.Match[str]) -> str:
    data = match[0].encode()
    if len(data) <= ECHO_LIMIT:
        return match[0]
    head, tail = data[: ECHO_LIMIT * 2 // 3], data[-(ECHO_LIMIT // 3 - 5) :]
    return f"{head.decode(errors='ignore')} … {tail.decode(errors='ignore')}"


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
