"""Error messages and the texts that they quote, shortened for responses and logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

MESSAGE_LIMIT = 1000
"""Largest number of characters of an error message for the caller."""
ECHO_LIMIT = 95
"""Largest number of bytes of a quoted text or a word in a message. Callers get at most this much of their own
words back, and at most 200 bytes where a message quotes two texts."""
FOREIGN_LIMIT = 200
"""Largest number of characters of another program's message that repeats what was sent."""
_SEARCHED = 20_000
_WINDOW = 32
_ECHO = re.compile(r"""(?<!\w)'[^'\\]*(?:\\.[^'\\]*)*(?:'|$)|(?<!\w)"[^"\\]*(?:\\.[^"\\]*)*(?:"|$)|\S+""", re.DOTALL)
_hidden: list[tuple[re.Pattern[str], str]] = []


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut a long text in the middle: both ends stay readable."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]} … {text[-(limit - head - 3) :]}"


def in_our_words(message: str) -> str:
    """Return a message of pydantic's in the form of ours; those of our validators stay as they are."""
    if message.startswith("Value error, "):
        return message.removeprefix("Value error, ")
    message = re.sub("^Input should be (?=less|greater|finite|valid)", "expected a value that is ", message)
    message = re.sub("^Input should be a valid (?=[aeiou])", "expected an ", message)
    message = re.sub("^Input should be a valid", "expected a", message)
    message = message.replace("Input should be", "expected", 1)
    return message[0].lower() + message[1:]


def shown(value: object, most: int) -> str:
    """Return the first characters of a JSON value of the caller, which may be nested too deep for Python to write."""
    try:
        return str(value)[:most]
    except RecursionError:
        return f"{type(value).__name__} nested too deep"


def shorten_echoes(message: str) -> str:
    """Cut each quoted text and each word that is longer than ECHO_LIMIT, in the middle."""
    if len(message) > _SEARCHED:  # no space: it would make two words of one
        message = f"{message[: _SEARCHED // 2]}…{message[-_SEARCHED // 2 :]}"
    return _ECHO.sub(_shortened, message)


def shorten_foreign(message: str, *sent: bytes) -> str:
    """Cut another program's message as ours are cut, and more if it repeats a long part of what was sent to it."""
    message = shorten(shorten_echoes(message))
    data = message.encode()
    windows = [data[start : start + _WINDOW] for start in range(0, len(data) - _WINDOW, _WINDOW)]
    if len(data) <= FOREIGN_LIMIT or not any(window in part for part in sent for window in windows):
        return message
    return shorten(message, FOREIGN_LIMIT)


def _shortened(match: re.Match[str]) -> str:
    return echo(match[0])


def echo(text: str) -> str:
    """Cut a text of the caller, such as a name with spaces, to ECHO_LIMIT bytes."""
    data = text.encode(errors="replace")
    if len(data) <= ECHO_LIMIT:
        return text
    head, tail = data[: ECHO_LIMIT * 2 // 3], data[-(ECHO_LIMIT // 3 - 5) :]
    return f"{head.decode(errors='ignore')} … {tail.decode(errors='ignore')}"


def hide(folders: Mapping[str, Path]) -> None:
    """Replace each folder, and the folder it resolves to, by its name from now on; the root folder stays."""
    spellings = {str(path): name for name, folder in folders.items() for path in (folder, folder.resolve())}
    longest_first = sorted((path for path in spellings if path != "/"), key=len, reverse=True)
    _hidden[:] = [(_folder(path), spellings[path]) for path in longest_first]


def without_folders(text: str) -> str:
    """Return a text for a caller: hidden folders are replaced by their names, paths below them stay."""
    for folder, name in _hidden:
        text = folder.sub(lambda _, name=name: name, text)  # type: ignore[misc]
    return text


def _folder(path: str) -> re.Pattern[str]:
    """Match a whole folder, but not the end of a longer path or the beginning of another name."""
    return re.compile(rf"(?<![\w./-]){re.escape(path)}(?![\w-])")
