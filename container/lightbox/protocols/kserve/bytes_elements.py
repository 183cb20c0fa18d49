"""Tensors of byte strings in a blob, in both dialects.

KServe and Triton put every element behind its length, four bytes little-endian, and ``binary_data_size`` is the
total. OpenVINO Model Server's pages of 2022 send bare images one after another, and ``binary_data_size`` is text
with their sizes: ``"9821,12302,7889"``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from lightbox.errors import InputMismatch, MalformedBody

_LENGTH = struct.Struct("<I")


def parse_sizes(name: str, text: str) -> list[int]:
    """Return the sizes in a ``binary_data_size`` that is text; raise MalformedBody for what is none."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        raise MalformedBody(f"input {name}: binary_data_size: expected sizes such as '9821,12302', got {text[:80]!r}")
    return [int(part) for part in parts]


def split_bare(name: str, data: memoryview, sizes: Sequence[int], count: int) -> list[bytes]:
    """Return the elements of a blob whose sizes were given one by one.

    A single size may stand for the blob of prefixed elements too: it is read so when exactly ``count`` fit.
    """
    if len(sizes) == 1:
        found = split_prefixed(data, count)
        if found is not None:
            return found
    if len(sizes) != count:
        raise InputMismatch(f"input {name}: its shape holds {count} elements, but binary_data_size names {len(sizes)}")
    elements, at = [], 0
    for size in sizes:
        elements.append(bytes(data[at : at + size]))
        at += size
    return elements


def split(name: str, data: memoryview, count: int) -> list[bytes]:
    """Return the elements of a blob: prefixed ones, or a single bare one. Raises InputMismatch."""
    found = split_prefixed(data, count)
    if found is not None:
        return found
    if count == 1:
        return [bytes(data)]
    raise InputMismatch(
        f"input {name}: expected {count} elements, each behind its length in 4 bytes; {len(data)} bytes are not that"
    )


def split_prefixed(data: memoryview, count: int) -> list[bytes] | None:
    """Return exactly ``count`` elements that fill the blob, or None where it is not made of such."""
    elements: list[bytes] = []
    at = 0
    while at < len(data) and len(elements) < count:
        if at + _LENGTH.size > len(data):
            return None
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            return None
        elements.append(bytes(data[at + _LENGTH.size : end]))
        at = end
    return elements if at == len(data) and len(elements) == count else None


def join_prefixed(elements: Iterable[bytes]) -> bytes:
    """Return a blob of byte strings, each behind its length."""
    return b"".join(_LENGTH.pack(len(element)) + element for element in elements)
