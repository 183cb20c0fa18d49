"""Control characters of foreign texts, which could end a line or control a terminal."""

from __future__ import annotations

import re

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile(CONTROL.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def escape(text: str) -> str:
    """Write control characters, including line ends, as ``\\x0a``: a text stays on its line."""
    return CONTROL.sub(_escaped, text)


def shown(text: str) -> str:
    """Write control characters but tabs and line ends as ``escape`` does."""
    return text if text.isascii() and text.isprintable() else _CONTROL_BUT_LINES.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
