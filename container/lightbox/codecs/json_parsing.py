"""JSON text to values, with the errors and the memory of a request."""

from __future__ import annotations

from typing import Any

from lightbox.base.errors import MalformedBody, TooLarge
from lightbox.base.request_context import RequestContext
from lightbox.model_runtime.wire.rest import number_lists
from lightbox.model_runtime.wire.rest.json_document import PARSE_ERROR, load_all
from lightbox.model_runtime.wire.rest.number_lists import PartlyParsed
from lightbox.model_runtime.wire.status import Code, StatusError


def parse_values(text: bytes) -> list[Any]:
    """Return the JSON values in UTF-8 ``text``; NaN, Infinity and -Infinity are numbers.

    Raises MalformedBody for an empty body, for invalid JSON, for numbers beyond a double (1e400) and for too deep
    nesting, TooLarge for too many values one after another.
    """
    try:
        return load_all(text)
    except StatusError as error:
        if error.code is Code.RESOURCE_EXHAUSTED:
            raise TooLarge(error.message) from None
        raise MalformedBody(f"the JSON cannot be read: {error.message.removeprefix(PARSE_ERROR)}") from None


def parse_around_lists(text: bytes, context: RequestContext, body_bytes: int | None = None) -> PartlyParsed | None:
    """Return a text's values without its long lists of numbers or objects; None if it has none, or is invalid.

    Holds the memory for parsing; ``body_bytes`` is the length of the body if the text is a part of it.
    """
    body = 2 * (len(text) if body_bytes is None else body_bytes)
    return number_lists.parse_around_lists(
        text, load_all, context.check, lambda size: context.memory.hold(body + size, "the JSON"), lines=True
    )
