"""API keys for a stack that requires them, and lines of its key file."""

from __future__ import annotations

import asyncio
import base64
import hashlib

from lightbox.base.errors import LightboxError
from lightbox.core.additions import Authenticator, IncomingRequest
from lightbox.features.access.authenticators import UrlAuthenticator

APP = "https://app.example.com"
HEALTH_ROUTE = "/v1/endpoints/7/deployedModels/9"
"""Vertex AI's choice for a model without routes; ``:predict`` behind it is for predictions."""
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
    """Return a browser's Authorization header."""
    return f"Basic {base64.b64encode(f'{name}:{key}'.encode()).decode()}"


def outcome_of(authenticator: Authenticator, asked: IncomingRequest) -> str:
    """Return the caller's name, or the code of the refusal."""

    async def ask() -> str:
        try:
            return (await authenticator(asked)).name
        except LightboxError as error:
            return error.code
        finally:
            for _, writer in authenticator.idle if isinstance(authenticator, UrlAuthenticator) else []:
                writer.transport.abort()

    return asyncio.run(ask())
