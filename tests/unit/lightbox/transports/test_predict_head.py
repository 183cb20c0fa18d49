"""The ranks that a PredictRequest tells without its tensors, however it is laid out."""

from __future__ import annotations

import numpy as np
import pytest

from lightbox.tfs_wire.protobuf import delimited
from lightbox.transports.predict_head import read_predict_head
from lightbox.transports.predict_messages import write_predict_request


@pytest.mark.parametrize("ranks", [(0, 1), (4, 2), (6, 0)])
@pytest.mark.parametrize("value", [1.5, b"text"])
def test_ranks_are_told_without_the_tensors(ranks: tuple[int, int], value: object) -> None:
    tensors = [np.full((2,) * rank, value, object if isinstance(value, bytes) else np.float32) for rank in ranks]
    spec, told = read_predict_head(write_predict_request("m", "s", dict(zip("xy", tensors, strict=True)), 7))
    assert (spec.name, spec.signature_name, spec.version.value) == ("m", "s", 7)
    assert told == dict(zip("xy", ranks, strict=True))


def entry(*tensors: bytes, name: bytes = b"x") -> bytes:
    return delimited(1, name) + b"".join(delimited(2, tensor) for tensor in tensors)


DTYPE, SPEC = bytes([1 << 3, 1]), delimited(1, delimited(1, b"m"))


def shape(rank: int) -> bytes:
    return delimited(2, delimited(2, b"\x08\x01") * rank)


@pytest.mark.parametrize(
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
def test_ranks_of_messages_in_an_unusual_order(message: bytes) -> None:
    spec, ranks = read_predict_head(message + SPEC)
    assert (spec.name, ranks) == ("m", {"x": 1})


@pytest.mark.parametrize(
    "message", [b"\xff" * 20, bytes([0x92, 0x80, 0x80, 0x80, 0x10, 0])], ids=["none", "a long tag"]
)
def test_what_is_no_message_has_no_ranks(message: bytes) -> None:
    with pytest.raises(ValueError, match="pars"):
        read_predict_head(SPEC + message)
