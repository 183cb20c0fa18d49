"""A PredictRequest with any layout is read without copying its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lightbox.model_runtime.wire import tensor_proto
from lightbox.model_runtime.wire.messages import predict_pb2
from lightbox.model_runtime.wire.predict_request import read_predict_head, read_predict_request
from lightbox.model_runtime.wire.protobuf import delimited
from lightbox.transports.predict_messages import predict_request_pieces
from support.parameters import each


@each("ranks", [(0, 1), (4, 2), (6, 0)])
@each("value", [1.5, b"text"])
def test_ranks_are_reported_without_the_tensors(ranks: tuple[int, int], value: object) -> None:
    tensors = [np.full((2,) * rank, value, object if isinstance(value, bytes) else np.float32) for rank in ranks]
    spec, reply = read_predict_head(
        b"".join(predict_request_pieces("m", "s", dict(zip("xy", tensors, strict=True)), 7))
    )
    assert (spec.name, spec.signature_name, spec.version.value) == ("m", "s", 7)
    assert reply == dict(zip("xy", ranks, strict=True))


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


@UNUSUAL
def test_ranks_of_messages_in_an_unusual_order(message: bytes) -> None:
    spec, ranks = read_predict_head(message + SPEC)
    assert (spec.name, ranks) == ("m", {"x": 1})


@pytest.mark.parametrize(
    "message", [b"\xff" * 20, bytes([0x92, 0x80, 0x80, 0x80, 0x10, 0])], ids=["none", "a long tag"]
)
def test_what_is_no_message_has_no_ranks(message: bytes) -> None:
    with pytest.raises(ValueError, match="pars"):
        read_predict_head(SPEC + message)


@each("dtype", [np.float32, np.uint8, np.int64, np.float16, np.bool_])
@each("shape_of", [(2, 3), (0, 4), ()])
def test_contents_are_views(dtype: type, shape_of: tuple[int, ...]) -> None:
    array: np.ndarray[Any, Any] = np.ones(shape_of, dtype)
    sent = b"".join(predict_request_pieces("m", "s", {"x": array, "y": array}, 7, ["a", "b"]))
    request, contents = read_predict_request(memoryview(sent))
    assert {name: view.tobytes() for name, view in contents.items()} == dict.fromkeys("xy", array.tobytes())
    assert {name: view.obj for name, view in contents.items()} == dict.fromkeys("xy", sent)
    for name in "xy":
        decoded = tensor_proto.decode(request.inputs[name], contents[name])
        assert (decoded.dtype, decoded.shape, decoded.tolist()) == (array.dtype, array.shape, array.tolist())
        request.inputs[name].tensor_content = contents[name].tobytes()
    assert request == predict_pb2.PredictRequest.FromString(sent)


def test_strings_are_read_as_a_whole() -> None:
    sent = b"".join(predict_request_pieces("m", "s", {"x": np.array([b"text"], object)}))
    assert read_predict_request(memoryview(sent)) == (predict_pb2.PredictRequest.FromString(sent), {})


@UNUSUAL
@each("more", [b"", delimited(3, b"out"), bytes([12 << 3, 1])])
def test_messages_in_an_unusual_order_are_read_as_protobuf_reads_them(message: bytes, more: bytes) -> None:
    sent = message + SPEC + more
    assert read_predict_request(memoryview(sent)) == (predict_pb2.PredictRequest.FromString(sent), {})


@given(st.binary(max_size=60), st.integers(0, 200))
def test_damaged_messages_are_read_as_protobuf_reads_them(damage: bytes, at: int) -> None:
    sent = bytearray(b"".join(predict_request_pieces("m", "s", {"x": np.arange(6, dtype=np.float32)}, 7, ["a"])))
    sent[at : at + len(damage)] = damage
    try:
        expected = predict_pb2.PredictRequest.FromString(bytes(sent))
    except DecodeError:
        with pytest.raises(DecodeError):
            read_predict_request(memoryview(sent))
        return
    request, contents = read_predict_request(memoryview(sent))
    for name, view in contents.items():
        request.inputs[name].tensor_content = view.tobytes()
    assert request.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
