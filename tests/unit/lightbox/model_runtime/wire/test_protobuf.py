"""Fields of messages in any order, and damaged ones."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lightbox.model_runtime.wire.messages import predict_pb2
from lightbox.model_runtime.wire.predict_messages import predict_request_pieces
from lightbox.model_runtime.wire.predict_request import read_predict_request
from lightbox.model_runtime.wire.protobuf import delimited
from support.parameters import each
from support.predict_bytes import SPEC, UNUSUAL


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
