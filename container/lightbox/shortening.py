"""Texts of errors, and what they quote, at a length that can be answered and logged."""

from __future__ import annotations

import re

MESSAGE_LIMIT = 1000
"""Characters of an error message that reach the caller."""
ECHO_LIMIT = 95
"""Bytes of one quoted text or one word of a message: the caller's own words do not come back at length, and not
more than 200 bytes of them where a message has two of them."""
_SEARCHED = 20_000
_ECHO = re.compile(r"""(?<!\w)'[^'\\]*(?:\\.[^'\\]*)*(?:'|$)|(?<!\w)"[^"\\]*(?:\\.[^"\\]*)*(?:"|$)|\S+""", re.DOTALL)


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut a long text in its middle, so that both its ends can be read."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]} … {text[-(limit - head - 3) :]}"


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
