"""What a key may be used for, and what each path asks for."""

from __future__ import annotations

import re

INFER, METRICS, MANAGE = "infer", "metrics", "manage"
ROLES = (INFER, METRICS, MANAGE)

_METRICS = "/metrics"
_MANAGE = re.compile(
    r"/models(?!/[^/]+/invoke\Z)(/|\Z)|/v2/repository(/|\Z)|/inference\.GRPCInferenceService/Repository"
)
"""Loads, unloads and lists of models: all below these but predictions, as a route may come that nobody adds here."""


def role_of(path: str, loads_models: bool) -> str:
    """Return the role that a path needs, as nginx has normalized it; one that is not known is a prediction's.

    ``loads_models`` tells of multi-model mode: elsewhere nothing changes models, and lists are metadata. "" is a path
    with characters that no route has. A worker reads the caller's own spelling, in which dots are names; no model has
    such a name.
    """
    if path == _METRICS:
        return METRICS
    return MANAGE if loads_models and (not path or _MANAGE.match(path)) else INFER
