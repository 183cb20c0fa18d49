"""Log lines in comparable form."""

from __future__ import annotations

import re

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 (?=\[)", re.MULTILINE)


def without_times(log: str) -> str:
    """Return text log lines without their leading time; other lines are unchanged."""
    return _TIME.sub("", log)
