"""Keys for a stack that asks for them, and lines of its file."""

from __future__ import annotations

import base64
import hashlib

APP = "https://app.example.com"
KEYS = {
    "ci": ("key-of-ci", "infer"),
    "grafana": ("key-of-grafana", "metrics"),
    "boss": ("key-of-boss", "infer,metrics,manage"),
    "loader": ("key-of-loader", "manage"),
}
EVERYTHING = {
    "SAGEMAKER_MULTI_MODEL": "true",
    "LIGHTBOX_STREAMS": "true",
    "LIGHTBOX_SESSIONS": "true",
    "LIGHTBOX_TFS_API": "true",
    "LIGHTBOX_PAGE": "true",
    "LIGHTBOX_MAX_BODY_MB": "8",
}


def key(name: str) -> str:
    """Return the key of a name."""
    return KEYS[name][0]


def bearer(name: str) -> dict[str, str]:
    """Return the header with the key of a name."""
    return {"Authorization": f"Bearer {key(name)}"}


def key_line(name: str, key: str, roles: str = "infer") -> str:
    """Return the line of a key for LIGHTBOX_API_KEYS."""
    return f"{name} sha256:{hashlib.sha256(key.encode()).hexdigest()} {roles}\n"


def basic(name: str, key: str) -> str:
    """Return what a browser sends as Authorization."""
    return f"Basic {base64.b64encode(f'{name}:{key}'.encode()).decode()}"
