"""A PredictRequest with any layout is read without copying its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightbox.model_runtime.wire import tensor_proto
from lightbox.model_runtime.wire.messages import predict_pb2
from lightbox.model_runtime.wire.predict_messages import predict_request_pieces
from lightbox.model_runtime.wire.predict_request import read_predict_head, read_predict_request
from support.parameters import each
from support.predict_bytes import SPEC, UNUSUAL


@each("ranks", [(0, 1), (4, 2), (6, 0)])
@each("value", [1.5, b"text"])
def test_ranks_are_reported_without_the_tensors(ranks: tuple[int, int], value: object) -> None:
    tensors = [np.full((2,) * rank, value, object if isinstance(value, bytes) else np.float32) for rank in ranks]
    spec, reply = read_predict_head(
        b"".join(predict_request_pieces("m", "s", dict(zip("xy", tensors, strict=True)), 7))
    )
    assert (spec.name, spec.signature_name, spec.version.value) == ("m", "s", 7)
    assert reply == dict(zip("xy", ranks, strict=True))


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
