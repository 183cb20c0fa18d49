"""The roles of keys, and the role that each path needs."""

from __future__ import annotations

import re

INFER, METRICS, MANAGE = "infer", "metrics", "manage"
ROLES = (INFER, METRICS, MANAGE)

_METRICS = "/metrics"
_MANAGE = re.compile(
    r"/models(?!/[^/]+/invoke\Z)(/|\Z)|/v2/repository(/|\Z)|/inference\.GRPCInferenceService/Repository"
)
"""Paths that load, unload and list models; all paths below except predictions, so that future routes are covered."""


def role_of(path: str, loads_models: bool) -> str:
    """Return the role that a path, as normalized by nginx, needs; unknown paths need that of predictions.

    ``loads_models`` means multi-model mode: elsewhere no request changes models, and lists are metadata. "" is a path
    with characters that no route has. Workers read the caller's raw path, in which dots are part of a name; no model
    has such a name.
    """
    if path == _METRICS:
        return METRICS
    return MANAGE if loads_models and (not path or _MANAGE.match(path)) else INFER
