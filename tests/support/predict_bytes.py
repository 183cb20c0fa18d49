"""Bytes of PredictRequests with fields in an unusual order."""

from __future__ import annotations

import pytest

from lightbox.model_runtime.wire.protobuf import delimited


def entry(*tensors: bytes, name: bytes = b"x") -> bytes:
    return delimited(1, name) + b"".join(delimited(2, tensor) for tensor in tensors)


DTYPE, SPEC = bytes([1 << 3, 1]), delimited(1, delimited(1, b"m"))


def shape(rank: int) -> bytes:
    return delimited(2, delimited(2, b"\x08\x01") * rank)


UNUSUAL = pytest.mark.parametrize(
    "message",
    [
        delimited(2, entry(DTYPE + delimited(4, b"1234") + shape(1))),
        delimited(2, entry(shape(1) + DTYPE)),
        delimited(2, delimited(2, DTYPE + shape(1)) + delimited(1, b"x")),
        delimited(2, entry(DTYPE + shape(1), b"")),
        delimited(2, entry(DTYPE + shape(4))) + delimited(2, entry(DTYPE + shape(1))),
        delimited(2, entry(DTYPE + shape(1))) + bytes([9 << 3 | 3, 9 << 3 | 4]),
    ],
    ids=["shape last", "dtype last", "name last", "two tensors", "two inputs of a name", "a group"],
)
