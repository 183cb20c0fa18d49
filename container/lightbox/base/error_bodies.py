"""The JSON body of an error, its HTTP response, and the trailers of a failed gRPC call.

The edge, the supervisor, nginx's configuration and streams use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson

from lightbox.base.errors import (
    LightboxError,
    MethodNotAllowed,
    PermissionDenied,
    RateLimited,
    RouteNotFound,
    Unauthenticated,
    Unavailable,
)
from lightbox.base.request_context import REQUEST_ID_HEADER
from lightbox.model_runtime.wire.status import Code

GRPC_STATUS = "grpc-status"
_MODEL_ERRORS: set[str] = set()
"""The beginnings of paths with ModelErrors, in this process."""
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_OUTER_SPACES = re.compile("^ +| +$")
_OF_NO_MODEL = (RouteNotFound, MethodNotAllowed, Unauthenticated, PermissionDenied, RateLimited)
"""Codes of errors that SageMaker itself would return; they are never wrapped in a ModelError."""
_CHALLENGES = ('Bearer realm="Lightbox"', 'Basic realm="Lightbox", charset="UTF-8"')
"""Two headers, as browsers look for Basic only at the beginning of one."""

Headers = list[tuple[str, str]]


def error_body(error: LightboxError, request_id: str, **more: Any) -> bytes:
    """Return ``{"error", "code", "request_id"}`` as JSON; ``more`` are further keys."""
    return orjson.dumps({"error": error.message, "code": error.code, "request_id": request_id, **more})


def error_text(body: bytes) -> str:
    """Return the message in an error body."""
    try:
        return str(orjson.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]


def model_error_body(error: LightboxError, request_id: str) -> bytes:
    """Return an error in the form of SageMaker's ModelError; OriginalMessage holds our own form."""
    return orjson.dumps(
        {
            "Message": f"Received status {error.status} from the model container: {error.message}",
            "OriginalStatusCode": error.status,
            "OriginalMessage": error_body(error, request_id).decode(),
            "LogStreamArn": "",
        }
    )


def give_model_errors(paths: Iterable[str]) -> None:
    """Let errors on paths that begin like these be ModelErrors, in this process."""
    _MODEL_ERRORS.update(paths)


def has_model_errors(path: str) -> bool:
    """Return whether errors on a path are ModelErrors."""
    return path.startswith(tuple(_MODEL_ERRORS))


def error_response(
    error: LightboxError, request_id: str, is_model_error: bool = False, **more: Any
) -> tuple[int, Headers, bytes]:
    """Return status, headers and body of an error, as a ModelError or in our own form."""
    status, headers = error.status, [("Content-Type", "application/json"), (REQUEST_ID_HEADER, request_id)]
    if isinstance(error, Unavailable):
        headers.append(("Retry-After", str(error.retry_after)))
    if isinstance(error, RateLimited):
        headers += error.headers.items()
    if isinstance(error, MethodNotAllowed):
        headers.append(("Allow", ", ".join(error.allowed)))
    if isinstance(error, Unauthenticated):
        headers += [("WWW-Authenticate", challenge) for challenge in _CHALLENGES]
    if is_model_error and not isinstance(error, _OF_NO_MODEL):
        status, body = HTTPStatus.FAILED_DEPENDENCY.value, model_error_body(error, request_id)
        headers.append(("x-amzn-ErrorType", "ModelError"))
    else:
        if is_model_error:
            more |= {"message": error.message}  # boto3 shows no other key
        body = error_body(error, request_id, **more)
    return status, [*headers, ("Content-Length", str(len(body)))], body


def grpc_trailers(error: LightboxError, request_id: str) -> Headers:
    """Return the trailers of a failed gRPC call, or the headers from which nginx makes them."""
    message = quote(error.message, safe=_PRINTABLE)
    # HTTP/1.1 removes spaces at both ends of a header's value.
    message = _OUTER_SPACES.sub(lambda spaces: "%20" * len(spaces[0]), message)
    return [
        (GRPC_STATUS, str(Code[error.grpc_status].value)),
        ("grpc-message", message),
        ("lightbox-code", error.code),
        (REQUEST_ID_HEADER.lower(), request_id),
    ]


def http_bytes(status: int, headers: Headers, body: bytes) -> bytes:
    """Return a whole HTTP/1.1 response that closes the connection, for code without a framework."""
    lines = [f"HTTP/1.1 {status_line(status)}", *(f"{name}: {value}" for name, value in headers), "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def status_line(status: int) -> str:
    """Return the status code and its name, as in HTTP's status line."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:  # a handler may choose a code that has no name
        return f"{status} Unknown"
