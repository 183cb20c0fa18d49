"""Protobuf's wire format: parsing the fields of a message, and encoding some."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from lightbox.model_runtime.deadline import check_deadline

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
_DEEPEST = 100
"""Protobuf's limit of messages in messages."""
_AT_ONCE = 1 << 12


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode a number; return it and the position after it. Raises ValueError for a truncated or too long one."""
    value = shift = 0
    try:
        while shift < 70:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
            shift += 7
    except IndexError:
        raise ValueError("protobuf message ends inside a number") from None
    raise ValueError("protobuf number is longer than 10 bytes")


def read_fields(data: memoryview, most: float = math.inf) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (field number, wire type, value bytes) of one message; the values are views of ``data``.

    A varint's value is its encoded bytes. Raises ValueError for a truncated or malformed message, and for one of more
    than ``most`` fields; and the error of ``check_deadline``.
    """
    position, count, end = 0, 0, len(data)
    while position < end:
        count += 1
        if count % _AT_ONCE == 0:
            check_deadline()
        tag = data[position]
        if tag < 0x80:
            position += 1
        else:
            tag, position = read_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == LENGTH_DELIMITED:
            size, position = read_varint(data, position)
        elif wire_type == VARINT:
            size = read_varint(data, position)[1] - position
        elif wire_type in (FIXED32, FIXED64):
            size = 4 if wire_type == FIXED32 else 8
        else:
            raise ValueError(f"protobuf field {number} has the unknown wire type {wire_type}")
        if number == 0 or tag >> 32 or position + size > end:  # parsers keep 32 bits of a longer tag, or none
            raise ValueError(f"protobuf message ends inside field {number}")
        if count > most:
            raise ValueError(f"protobuf message has more than {most} fields")
        yield number, wire_type, data[position : position + size]
        position += size


def check_count(data: memoryview, kind: Any, most: int) -> None:
    """Raise ValueError for a malformed message, or for more than ``most`` fields in it and in the messages inside.

    ``kind`` is its descriptor. For an empty message, which is two bytes, parsers take some hundred bytes of memory.
    """
    _count(data, kind, most, 0)


def _count(data: memoryview, kind: Any, remaining: int, depth: int) -> int:
    """Return how many of the ``remaining`` fields are left after those of a message."""
    check_deadline()
    inner = _messages_in(kind)
    for number, wire_type, value in read_fields(data):
        remaining -= 1
        if remaining < 0 or depth > _DEEPEST:
            raise ValueError("it has more fields than are read, or too many messages in messages")
        if wire_type == LENGTH_DELIMITED and value and number in inner:
            remaining = _count(value, inner[number], remaining, depth + 1)
    return remaining


@cache
def _messages_in(kind: Any) -> dict[int, Any]:
    """Return the descriptors of the messages that a message may hold, by the numbers of their fields."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def varint(value: int) -> bytes:
    """Return one non-negative integer as a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


Fragments = list[bytes | memoryview]
"""Parts of a message, joined once at the end, so that large arrays are copied once."""


@lru_cache(maxsize=1 << 10)
def head(field: int, length: int) -> bytes:
    """Return the bytes before ``length`` bytes of content of a length-delimited field."""
    return varint(field << 3 | 2) + varint(length)


def wrapped(field: int, content: Fragments) -> Fragments:
    """Return fragments as one length-delimited field."""
    return [head(field, sum(map(len, content))), *content]


def delimited(field: int, content: bytes) -> bytes:
    """Return ``content`` as a length-delimited field: a message, a string or packed numbers."""
    return head(field, len(content)) + content
