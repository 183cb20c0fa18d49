"""What routes of HTTP share: bodies as they came and as they go."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from flask import g, request
from werkzeug.exceptions import ClientDisconnected

from lightbox.codecs.media_type import decoded_body
from lightbox.core.edge import EXCHANGE, Exchange, pass_over_body
from lightbox.core.errors import BadRequest, LightboxError
from lightbox.core.request_context import MemoryBudget, RequestContext
from lightbox.sagemaker.custom_attributes import CUSTOM_ATTRIBUTES, meant


def enter() -> None:
    """Give the view the request's context in ``g``, and note the route; Flask calls it before each view."""
    exchange: Exchange = request.environ[EXCHANGE]
    g.context = exchange.context
    if request.url_rule is not None:
        exchange.route = request.url_rule.rule


def json_body(value: Any) -> bytes:
    """Return compact JSON."""
    return orjson.dumps(value)


@contextmanager
def received_body(memory: MemoryBudget, max_mb: int, context: RequestContext) -> Iterator[bytes]:
    """Yield the body, decoded as its Content-Encoding says; ``max_mb`` bounds it in MiB.

    The request's memory is given back at the end. Raises what ``decoded_body`` and ``Share.hold`` raise, and keeps
    nothing of the body then.
    """
    with memory.share() as context.memory:
        length = request.content_length or 0
        context.memory.weigh(length)
        try:
            context.memory.hold(2 * length)
        except LightboxError:
            pass_over_body(request.environ)
            raise
        with context.stage("receive"):
            body = _whole_body()
            if encoding := request.headers.get("Content-Encoding", ""):
                body = decoded_body(body, encoding, max_mb, context)
        yield body


def _whole_body() -> bytes:
    """Return the current request's body. Raises ClientDisconnected where it ends early."""
    length = request.content_length
    if length is None or length > (request.max_content_length or length):  # chunked, or an error
        return request.get_data(cache=False)
    body: bytes = request.environ["wsgi.input"].read(length)
    if len(body) < length:
        raise ClientDisconnected
    return body


log = logging.getLogger("lightbox")

TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"


def check_query() -> None:
    """Raise BadRequest if the current request has a query parameter: predictions read none."""
    for name in request.args if request.query_string else ():
        close = meant(name)
        hint = f"; the header {CUSTOM_ATTRIBUTES} chooses: {close}=VALUE" if close else ""
        raise BadRequest(f"query parameter {name[:100]!r}: expected none, as nothing reads it{hint}")
