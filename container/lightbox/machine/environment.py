"""The environment variables that are no settings of ours."""

from __future__ import annotations

import os


def variable(name: str, default: str = "") -> str:
    """Return a variable that is no setting of ours, such as PATH or TMPDIR."""
    return os.environ.get(name, default)


def environment() -> dict[str, str]:
    """Return all variables, for a process that is to be started."""
    return dict(os.environ)
