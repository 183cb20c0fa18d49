"""nginx's refusals other than overload, written by the supervisor in the form of the caller's protocol.

nginx requests ``/refusal/.../STATUS``, an internal path, and describes the caller's request in headers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

from lightbox.base.error_bodies import error_response, grpc_trailers, http_bytes
from lightbox.base.errors import (
    BadRequest,
    DeadlineExceeded,
    LightboxError,
    MethodNotAllowed,
    PermissionDenied,
    RateLimited,
    RouteNotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lightbox.base.machine.temporary_storage import storage_full
from lightbox.base.request_context import choose_request_id
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.nginx.body_memory import FAILURE, LENGTH_HEADER, missing_storage

PATH = "/refusal/"
"""Path prefix of nginx's internal request; the status that nginx chose ends the path."""
REQUEST_HEADER = "x-lightbox-request"
"""Header with the caller's raw request line, cut after 300 characters."""
FORM_HEADER = "x-lightbox-form"
"""Header with the form: ``json``, ``model_error`` for SageMaker's clients, or ``grpc``."""
ERROR_HEADER = "x-lightbox-error"
"""Header with the error of a rejected caller, as ``written`` returns it."""
DENIED, FOREIGN = "denied", "foreign"
"""Ends of the path for a rejected caller, and for a page of another site, in place of a status."""
ORIGIN_HEADER, HOST_HEADER = "x-lightbox-origin", "x-lightbox-host"
"""Headers with the caller's Origin, and its Host without a port."""
CODE_HEADER = "X-Lightbox-Code"
"""Response header with the error's code for nginx's log; nginx hides it from the caller."""
FULL = "try again: as many requests as are allowed are in progress and waiting"

_DENIALS = {kind.code: kind for kind in (Unauthenticated, PermissionDenied, Unavailable)}
_ALLOWED = ("GET", "HEAD", "POST", "DELETE")


def refusal(settings: Settings, target: str, sent: Mapping[str, str]) -> bytes:
    """Return the whole response to nginx's request for ``target`` with the headers ``sent``, by lower-case name."""
    error = _error(settings, target, sent)
    request_id, form = choose_request_id(lambda name: sent.get(name.lower())), sent.get(FORM_HEADER)
    code = (CODE_HEADER, error.code)
    if form == "grpc":
        headers = [("content-type", "application/grpc"), ("content-length", "0"), *grpc_trailers(error, request_id)]
        return http_bytes(200, [*headers, code], b"")
    # A request that nginx cannot read has one form, whatever its path.
    is_model_error = form == "model_error" and not isinstance(error, BadRequest)
    status, headers, body = error_response(error, request_id, is_model_error)
    return http_bytes(status, [*headers, code], body)


def written(error: LightboxError) -> str:
    """Return an error as a header value: code, message, and a RateLimited's seconds and headers."""
    words = [error.code, quote(error.message)]
    if isinstance(error, RateLimited):
        words += [str(error.retry_after), *(quote(part) for pair in error.headers.items() for part in pair)]
    return " ".join(words)


def foreign(origin: str) -> PermissionDenied:
    """Return the error for a page of another site."""
    return PermissionDenied(f"Origin: expected this host's or one of LIGHTBOX_CORS_ORIGINS, got {origin!r}")


def _denial(text: str) -> LightboxError:
    code, message, *limit = map(unquote, text.split(" "))
    if limit:
        seconds, *pairs = limit
        return RateLimited(message, int(seconds), dict(zip(pairs[::2], pairs[1::2], strict=True)))
    return _DENIALS[code](message)


def _error(settings: Settings, target: str, sent: Mapping[str, str]) -> LightboxError:
    method, length = sent.get(REQUEST_HEADER, "").partition(" ")[0], sent.get(LENGTH_HEADER, "")
    made: dict[str, Callable[[], LightboxError]] = {
        "400": lambda: BadRequest("the request is not well-formed HTTP"),
        "404": lambda: RouteNotFound("there is no such route"),
        "405": lambda: MethodNotAllowed(f"this route does not accept the method {method}", _ALLOWED),
        "413": lambda: TooLarge(f"the request body is larger than {_limit(settings, length)}"),
        "414": lambda: BadRequest("the request line is too long", 414),
        "421": lambda: BadRequest(f"Host: expected one of LIGHTBOX_HOSTS, got {sent.get(HOST_HEADER, '')!r}", 421),
        "431": lambda: BadRequest("the request headers are too large", 431),
        "495": lambda: BadRequest(
            "the client certificate was refused: expected one of the authority that this server trusts, within its time"
        ),
        "496": lambda: PermissionDenied(
            "expected a client certificate of the authority that this server trusts, got none"
        ),
        "497": lambda: BadRequest("this port speaks TLS: expected https://, got a request of plain HTTP"),
        "503": lambda: Unavailable(
            "try again: the process that answers is starting, restarting or stopping, or it hangs"
        ),
        "504": lambda: DeadlineExceeded(f"no answer came within {settings.nginx_read_timeout} s"),
        DENIED: lambda: _denial(sent.get(ERROR_HEADER, "")),
        FOREIGN: lambda: foreign(sent.get(ORIGIN_HEADER, "")),
        "507": lambda: _not_kept(missing_storage(length, FAILURE)),
    }
    return made[target.partition("?")[0].rpartition("/")[2]]()  # nginx's rewrite keeps the caller's query


def _limit(settings: Settings, length: str) -> str:
    if length.isdecimal() and int(length) <= settings.max_body_mb << 20:
        return "the 1 KiB that this route takes"
    return f"LIGHTBOX_MAX_BODY_MB={settings.max_body_mb} MiB"


def _not_kept(needed: str | None) -> LightboxError:
    if needed:
        lack = storage_full(needed)
        log(f"{lack.message}. {lack.detail}")
        return lack
    return Unavailable("try again: nginx could not keep or forward the request")
