"""The roles of keys, and the role that each path needs."""

from __future__ import annotations

import re

INFER, METRICS, MANAGE = "infer", "metrics", "manage"
ROLES = (INFER, METRICS, MANAGE)

_METRICS = "/metrics"


def role_of(path: str, managing: re.Pattern[str] | None) -> str:
    """Return the role that a path, as normalized by nginx, needs; unknown paths need that of predictions.

    Paths that match ``managing`` load, unload and list models. It is None except in multi-model mode: elsewhere no
    request changes models, and lists are metadata. "" is a path with characters that no route has. Workers read the
    caller's raw path, in which dots are part of a name; no model has such a name.
    """
    if path == _METRICS:
        return METRICS
    return MANAGE if managing and (not path or managing.match(path)) else INFER
