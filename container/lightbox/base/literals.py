"""Literals of Python in foreign text, as exporters write values into a model's metadata."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

MOST_LITERAL = 1 << 18
"""Most characters: the parser takes some hundred bytes for each."""


def foreign_literal(text: str) -> Any:
    """Return the value of a literal. Raises ValueError for another text, or a longer one."""
    if len(text) > MOST_LITERAL:
        raise ValueError(f"expected at most {MOST_LITERAL:,} characters, got {len(text):,}")
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"expected a number, a list or names, got {text[:60]!r}") from None
