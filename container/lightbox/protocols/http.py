"""JSON for responses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from flask import request

from lightbox.codecs.body import decoded_body
from lightbox.errors import LightboxError
from lightbox.memory_budget import MemoryBudget
from lightbox.protocols.edge import pass_over_body
from lightbox.request_context import RequestContext


def json_body(value: Any) -> bytes:
    """Return compact JSON."""
    return orjson.dumps(value)


@contextmanager
def received_body(memory: MemoryBudget, max_mb: int, context: RequestContext) -> Iterator[bytes]:
    """Give the body as it was before its Content-Encoding; ``max_mb`` bounds it in MiB.

    What the request holds comes back at the end. Raises what ``decoded_body`` and ``Share.hold`` raise; nothing of the
    body is kept then.
    """
    with memory.share() as context.memory:
        length = request.content_length or 0
        context.memory.weigh(length)
        try:
            context.memory.hold(2 * length)
        except LightboxError:
            pass_over_body(request.environ)
            raise
        yield decoded_body(request.get_data(cache=False), request.headers.get("Content-Encoding", ""), max_mb, context)
