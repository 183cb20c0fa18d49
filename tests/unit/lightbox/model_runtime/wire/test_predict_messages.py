"""The hand-written Predict messages against TensorFlow's own messages and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from lightbox.model_runtime.wire import dtypes, tensor_proto
from lightbox.model_runtime.wire.messages import predict_pb2
from lightbox.model_runtime.wire.predict_messages import (
    Array,
    predict_request_pieces,
    read_predict_response,
)
from lightbox.model_runtime.wire.protobuf import delimited

pytestmark = pytest.mark.extended

NUMERIC = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
shapes = st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
arrays = st.sampled_from(NUMERIC).flatmap(lambda dtype: st_numpy.arrays(np.dtype(dtype), shapes))


def same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(arrays)
def test_numbers_reach_tensorflow_unchanged(array: Array) -> None:
    import tensorflow as tf

    data = b"".join(predict_request_pieces("m", "s", {"x": array}, 7, ["a", "b"]))
    request = predict_pb2.PredictRequest.FromString(data)
    assert same(tf.make_ndarray(request.inputs["x"]), array)
    assert (request.model_spec.name, request.model_spec.signature_name) == ("m", "s")
    assert request.model_spec.version.value == 7
    assert list(request.output_filter) == ["a", "b"]


@pytest.mark.parametrize("typed", [False, True], ids=["tensor_content", "typed field"])
@given(array=arrays)
def test_numbers_from_tensorflow_are_read_unchanged(array: Array, typed: bool) -> None:
    import tensorflow as tf

    proto = tf.make_tensor_proto(array)
    if typed:
        proto = as_typed_field(array, proto)
    assert same(tensor_proto.read(memoryview(proto.SerializeToString())), array)


def as_typed_field(array: Array, proto: Any) -> Any:
    """Return the tensor in the real server's form: its numbers are in the field of their type."""
    typed = type(proto)()
    typed.CopyFrom(proto)
    typed.ClearField("tensor_content")
    for name in [f.name for f in typed.DESCRIPTOR.fields if f.name.endswith("_val")]:
        typed.ClearField(name)
    flat = array.ravel()
    kind = array.dtype.name
    if kind in ("complex64", "complex128"):
        numbers = flat.view("f4" if kind == "complex64" else "f8")
        getattr(typed, "scomplex_val" if kind == "complex64" else "dcomplex_val").extend(numbers.tolist())
    elif kind == "float16":
        typed.half_val.extend(flat.view(np.uint16).tolist())
    else:
        field = {
            "bool": "bool_val",
            "float32": "float_val",
            "float64": "double_val",
            "int64": "int64_val",
            "uint32": "uint32_val",
            "uint64": "uint64_val",
        }.get(kind, "int_val")
        getattr(typed, field).extend(flat.tolist())
    return typed


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_strings_both_ways(values: list[bytes]) -> None:
    import tensorflow as tf

    array = np.empty(len(values), object)
    array[:] = values
    request = predict_pb2.PredictRequest.FromString(b"".join(predict_request_pieces("m", "", {"x": array})))
    assert tf.make_ndarray(request.inputs["x"]).tolist() == values
    assert not request.model_spec.HasField("version")
    assert tensor_proto.read(memoryview(request.inputs["x"].SerializeToString())).tolist() == values


def test_bfloat16_is_widened() -> None:
    import tensorflow as tf

    proto = tf.make_tensor_proto(tf.constant([1.5, -2.0, 1e30], tf.bfloat16))
    read = tensor_proto.read(memoryview(proto.SerializeToString()))
    assert read.dtype == np.float32
    assert read.tolist() == tf.cast(tf.constant([1.5, -2.0, 1e30], tf.bfloat16), tf.float32).numpy().tolist()


def test_the_last_value_fills_the_shape() -> None:
    import tensorflow as tf

    proto = tf.make_tensor_proto(np.array([5], "f4"))
    proto.ClearField("tensor_content")
    proto.ClearField("float_val")
    proto.float_val.extend([3.0, 4.0])
    proto.tensor_shape.dim[0].size = 4
    assert tensor_proto.read(memoryview(proto.SerializeToString())).tolist() == [3, 4, 4, 4]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_predict_response(data)
    except (ValueError, UnicodeDecodeError):
        pass
    except Exception as error:
        assert type(error).__name__ == "DecodeError", error


@pytest.mark.parametrize("numbers", [b"\x80", b"\x80" * 10 + b"\0"], ids=["cut", "too long"])
def test_a_malformed_number_is_refused(numbers: bytes) -> None:
    data = b"\x08\x03\x12\0" + delimited(dtypes.INT_VAL, b"\x01" + numbers)
    with pytest.raises(tensor_proto.MalformedTensor):
        tensor_proto.read(memoryview(data))


def test_other_layouts_and_byte_orders_arrive_row_major() -> None:
    import tensorflow as tf

    array = np.arange(12, dtype=">f4").reshape(3, 4).T
    request = predict_pb2.PredictRequest.FromString(b"".join(predict_request_pieces("m", "", {"x": array})))
    assert tf.make_ndarray(request.inputs["x"]).tolist() == array.tolist()
