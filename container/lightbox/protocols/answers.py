"""The one JSON error body, whatever the route."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response, g

from lightbox.errors import LightboxError, MethodNotAllowed, Unavailable


def json_body(value: Any) -> bytes:
    """Return compact JSON."""
    return orjson.dumps(value)


def error_response(error: LightboxError) -> Response:
    """Return ``{"error", "code", "request_id"}`` with the error's status, and the headers that belong to it."""
    g.error_code = error.code
    body = {"error": error.message, "code": error.code, "request_id": g.request_id}
    response = Response(json_body(body), status=error.status, mimetype="application/json")
    if isinstance(error, Unavailable):
        response.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(error.allowed)
    return response
