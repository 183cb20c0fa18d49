"""Protobuf's variable-length integers, many at a time with numpy instead of one by one in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_GROUP = 7


def varint(value: int) -> bytes:
    """Return one non-negative integer as a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= _GROUP
    out.append(value)
    return bytes(out)


Fragments = list[bytes | memoryview]
"""Parts of a message: joined once at the end, so that large arrays are copied once."""


def head(field: int, length: int) -> bytes:
    """Return what goes before ``length`` bytes of content of a length-delimited field."""
    return varint(field << 3 | 2) + varint(length)


def wrapped(field: int, content: Fragments) -> Fragments:
    """Return fragments as one length-delimited field."""
    return [head(field, sum(map(len, content))), *content]


def delimited(field: int, content: bytes) -> bytes:
    """Return ``content`` as a length-delimited field: a message, a string or packed numbers."""
    return head(field, len(content)) + content


def varints(values: Array) -> bytes:
    """Return an integer array of any shape as packed varints; a negative value takes ten bytes."""
    flat = np.ascontiguousarray(values).reshape(-1)
    flat = flat.astype(np.int64).view(np.uint64) if flat.dtype.kind in "bi" else flat.astype(np.uint64)
    if not flat.size:
        return b""
    largest = int(flat.max())
    if largest < 128:
        return flat.astype(np.uint8).tobytes()
    return _spread(flat, -(-largest.bit_length() // _GROUP))


def _spread(flat: Array, width: int) -> bytes:
    """Write each number into a row of ``width`` groups, then keep the groups that it needs."""
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(_GROUP)
    groups = flat[:, None] >> shifts
    needed = groups != 0
    needed[:, 0] = True
    octets = (groups & np.uint64(127)).astype(np.uint8)
    octets[:, :-1] |= needed[:, 1:].astype(np.uint8) << 7
    return bytes(octets[needed].tobytes())
