"""Walking over the fields of a serialized protobuf message; ``varint.py`` writes them."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Decode a number; return it and the position behind it. Raises ValueError when it is cut or too long."""
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise ValueError("protobuf message ends inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("protobuf number is longer than 10 bytes")


def read_fields(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (field number, wire type, value bytes) of one message; the values are views of ``data``.

    A varint's value is its own encoded bytes. Raises ValueError when the message is cut or malformed.
    """
    position = 0
    while position < len(data):
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
        if number == 0 or position + size > len(data):
            raise ValueError(f"protobuf message ends inside field {number}")
        yield number, wire_type, data[position : position + size]
        position += size
