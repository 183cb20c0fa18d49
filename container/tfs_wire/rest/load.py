"""Reading a request body: quickly where the quick readers see what RapidJSON would see, exactly elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import orjson

from tfs_wire.rest import rapidjson
from tfs_wire.rest.rapidjson_numbers import has_long_numbers
from tfs_wire.status import invalid

MAX_EXACT_BYTES = 1 << 21
"""The exact reader is slow; of a longer malformed body only the place of the fault is told."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def load(body: bytes | bytearray) -> Any:
    """Return the parsed body; raise StatusError "JSON Parse error: ..." if it is malformed.

    Of a name given twice the first value counts (objects are ``rapidjson.Members`` then).
    """
    body = bytes(body)
    if has_long_numbers(body):
        return rapidjson.parse(body)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _load_tolerant(body)
    if body.count(b'"') == 2 * _count_strings(document):
        return document
    # An escaped quote, or a name that was given twice and that orjson has dropped.
    return _load_tolerant(body)


def _count_strings(document: Any) -> int:
    count, pending = 0, [document]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            count += 1
        elif isinstance(value, dict):
            count += len(value)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(item for item in value if isinstance(item, (str, dict, list)))
    return count


def _load_tolerant(body: bytes) -> Any:
    """The standard library's reader takes NaN, Infinity and text after the document."""
    may_be_exact = len(body) <= MAX_EXACT_BYTES
    # It differs from RapidJSON in lone surrogates, byte order marks and overflowing numbers.
    if may_be_exact and (b"\\u" in body or body.startswith(_BYTE_ORDER_MARK)):
        return rapidjson.parse(body)
    text = body.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogateescape")
    try:
        document, _ = _DECODER.raw_decode(text, len(text) - len(text.lstrip(" \n\r\t")))
    except json.JSONDecodeError as error:
        return _load_exact(body, rapidjson.INVALID_VALUE, error.pos)
    except RecursionError:
        return _load_exact(body, rapidjson.TOO_DEEP, 0)
    if b"Inf" not in body and any(map(math.isinf, _floats(document))):
        return _load_exact(body, rapidjson.TOO_BIG, 0)
    return document


def _members(found: list[tuple[str, Any]]) -> rapidjson.Members:
    members = rapidjson.Members()
    for name, value in found:
        members.add(name, value)
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members)


def _floats(document: Any) -> Iterator[float]:
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, float):
            yield value
        elif isinstance(value, rapidjson.Members):
            pending.extend(item for _, item in value.pairs)
        elif isinstance(value, list):
            pending.extend(value)


def _load_exact(body: bytes, what: str, at: int) -> Any:
    """Read the body exactly; a long one is refused with what is known already."""
    if len(body) > MAX_EXACT_BYTES:
        raise invalid(f"JSON Parse error: {what} at offset: {at}")
    return rapidjson.parse(body)
