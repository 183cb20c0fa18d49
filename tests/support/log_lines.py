"""Log lines as tests compare them."""

from __future__ import annotations

import re

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 (?=\[)", re.MULTILINE)


def without_times(log: str) -> str:
    """Return lines of the text form without the time that each begins with; others stay."""
    return _TIME.sub("", log)
