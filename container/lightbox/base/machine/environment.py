"""Environment variables other than our settings."""

from __future__ import annotations

import os


def variable(name: str, default: str = "") -> str:
    """Return a variable other than our settings, such as PATH or TMPDIR."""
    return os.environ.get(name, default)


def environment() -> dict[str, str]:
    """Return all variables, for a child process."""
    return dict(os.environ)
