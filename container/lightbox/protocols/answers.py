"""JSON for responses."""

from __future__ import annotations

from typing import Any

import orjson


def json_body(value: Any) -> bytes:
    """Return compact JSON."""
    return orjson.dumps(value)
