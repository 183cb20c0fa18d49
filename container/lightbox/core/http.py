"""Bodies of requests and responses, for all HTTP routes.

A request is a WSGI environ here, as ``Predictions`` does not use Flask's request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl

import orjson
from flask import Response as HttpResponse
from flask import g, request
from werkzeug.exceptions import ClientDisconnected
from werkzeug.wsgi import get_content_length, get_input_stream

from lightbox.base.errors import BadRequest, LightboxError
from lightbox.base.request_context import MemoryBudget, RequestContext
from lightbox.codecs.base import Response
from lightbox.codecs.media_type import decoded_body
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, meant
from lightbox.core.edge import EXCHANGE, Exchange, drain_body


def enter() -> None:
    """Set ``g.context`` and note the route; Flask calls it before each view."""
    exchange: Exchange = request.environ[EXCHANGE]
    g.context = exchange.context
    if request.url_rule is not None:
        exchange.route = request.url_rule.rule


def json_body(value: Any) -> bytes:
    """Return compact JSON."""
    return orjson.dumps(value)


def http_response(response: Response) -> HttpResponse:
    """Return the Flask response for a response."""
    return HttpResponse(response.body, content_type=response.content_type, headers=dict(response.headers))


@contextmanager
def received_body(environ: dict[str, Any], memory: MemoryBudget, max_mb: int) -> Iterator[bytes]:
    """Yield the body, decoded by its Content-Encoding; ``max_mb`` bounds it in MiB.

    The request's memory is released at the end. Raises as ``decoded_body`` and ``Share.hold`` do, and HTTPException for
    a body that is too large or incomplete; then no byte of the body is kept.
    """
    context: RequestContext = environ[EXCHANGE].context
    with memory.share(context.turn.model) as context.memory:
        yield read_body(environ, context, max_mb)


def read_body(environ: dict[str, Any], context: RequestContext, max_mb: int) -> bytes:
    """Return the body within the memory of the context, which the caller releases; see ``received_body``."""
    declared = get_content_length(environ)
    length = declared or 0
    context.memory.weigh(length)
    try:
        context.memory.hold(2 * length)
    except LightboxError:
        drain_body(environ)
        raise
    with context.stage("receive"):
        body = _whole_body(environ, declared, max_mb << 20)
        if encoding := environ.get("HTTP_CONTENT_ENCODING"):
            body = decoded_body(body, encoding, max_mb, context)
    return body


def _whole_body(environ: dict[str, Any], length: int | None, most: int) -> bytes:
    if length is None or length > most:  # chunked, or an error
        return get_input_stream(environ, max_content_length=most).read()
    body: bytes = environ["wsgi.input"].read(length)
    if len(body) < length:
        raise ClientDisconnected
    return body


def check_query(environ: dict[str, Any]) -> None:
    """Raise BadRequest if a request has a query parameter: predictions have none."""
    query = environ.get("QUERY_STRING", "")
    for name, _ in parse_qsl(query, keep_blank_values=True) if query else ():
        close = meant(name)
        hint = f"; the header {CUSTOM_ATTRIBUTES} chooses: {close}=VALUE" if close else ""
        raise BadRequest(f"query parameter {name[:100]!r}: this route has no query parameters{hint}")
