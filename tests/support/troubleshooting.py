"""The error texts that docs/troubleshooting.md quotes."""

from __future__ import annotations

import re

from support.stack import REPOSITORY

_LEAST = 12
"""Characters of a cell from which on it is a text and not a name or a status."""


def quoted() -> list[str]:
    """Return the texts in the first column of the page's tables: what is quoted there and has a space in it."""
    page = (REPOSITORY / "docs" / "troubleshooting.md").read_text()
    first = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    again = re.findall(r"look for `([^`]+)`|the line `([^`]+)`", page)
    cells = [text for cell in first for text in re.findall(r"`([^`]+)`", cell)] + ["".join(pair) for pair in again]
    return [text for text in cells if " " in text and len(text) > _LEAST]


def pattern(text: str) -> re.Pattern[str]:
    """Return a pattern for a quoted text, with any values in place of its ellipses."""
    return re.compile(".*".join(re.escape(part.strip()) for part in text.split("…")), re.DOTALL)
