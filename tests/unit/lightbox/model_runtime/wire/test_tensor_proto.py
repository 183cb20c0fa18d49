"""Arrays to TensorProtos and back, against TensorFlow's own make_tensor_proto and make_ndarray, for every dtype."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightbox.model_runtime.wire import dtypes, tensor_proto
from lightbox.model_runtime.wire.messages import tensor_pb2
from support.parameters import each

pytestmark = pytest.mark.extended

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

NUMBERS = [row for row in range(1, 31) if dtypes.info(row) is not None]
# make_tensor_proto and make_ndarray support these in one direction at most.
ONLY_OURS = {dtypes.DT_STRING}
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
LIMIT = settings(max_examples=15, deadline=None)


def arrays(number: int) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Arrays of a dtype with arbitrary bits."""
    dtype = dtypes.numpy_dtype(number)
    if number == dtypes.DT_STRING:
        return npst.arrays(object, SHAPES, elements=st.binary(max_size=5))
    if number == dtypes.DT_BOOL:
        return npst.arrays(np.bool_, SHAPES)
    if number in (29, 30):  # int4 and uint4 use half of their byte
        values = npst.arrays(np.int8, SHAPES, elements=st.integers(*((-8, 7) if number == 29 else (0, 15))))
        return values.map(lambda array: array.astype(dtype))
    raw = SHAPES.flatmap(lambda shape: npst.arrays(np.uint8, (*shape, dtype.itemsize)))
    return raw.map(lambda octets: np.ascontiguousarray(octets).view(dtype).reshape(octets.shape[:-1]))


def same(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return first.tolist() == second.tolist() if first.dtype == object else first.tobytes() == second.tobytes()


def one_nan(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array with the same bits in every NaN: TensorFlow passes some through Python's floats."""
    if array.dtype.kind not in "fcV" or array.dtype.names or "int" in array.dtype.name:
        return array
    parts = np.atleast_1d(array.copy()).view(
        {"c8": np.float32, "c16": np.float64}.get(array.dtype.str[1:], array.dtype)
    )
    with np.errstate(invalid="ignore"):
        parts[np.isnan(parts)] = np.nan
    whole: np.ndarray[Any, Any] = parts.view(array.dtype).reshape(array.shape)
    return whole


def message(array: np.ndarray[Any, Any], as_content: bool = False) -> tensor_pb2.TensorProto:
    return tensor_pb2.TensorProto.FromString(b"".join(tensor_proto.encode(array, as_content)))


@each("number", NUMBERS)
@each("as_content", [False, True])
def test_what_is_written_is_read_again(number: int, as_content: bool) -> None:
    @LIMIT
    @given(arrays(number))
    def check(array: np.ndarray[Any, Any]) -> None:
        assert same(tensor_proto.decode(message(array, as_content)), array)

    check()


@each("number", [number for number in NUMBERS if number not in ONLY_OURS])
def test_tensorflow_reads_what_we_write(number: int) -> None:
    import tensorflow as tf

    @LIMIT
    @given(arrays(number))
    def check(array: np.ndarray[Any, Any]) -> None:
        # make_ndarray broadcasts a single value, and reads an empty field as zeros.
        for as_content in (False, True):
            found = tf.make_ndarray(message(array, as_content))
            assert same(one_nan(np.asarray(found).astype(array.dtype, copy=False)), one_nan(array))

    check()


@each("number", NUMBERS)
def test_we_read_what_tensorflow_writes(number: int) -> None:
    import tensorflow as tf

    @LIMIT
    @given(arrays(number))
    def check(array: np.ndarray[Any, Any]) -> None:
        assume(number != dtypes.DT_STRING or array.size)
        proto = tf.make_tensor_proto(array, dtype=number, shape=array.shape)
        found = tensor_proto.decode(tensor_pb2.TensorProto.FromString(proto.SerializeToString()))
        assert same(one_nan(found), one_nan(array))

    check()


@each("number", NUMBERS)
def test_the_last_value_fills_the_rest(number: int) -> None:
    array = np.zeros(2, dtypes.numpy_dtype(number)) if number != dtypes.DT_STRING else np.array([b"a", b"b"], object)
    proto = message(array)
    del proto.tensor_shape.dim[:]
    proto.tensor_shape.dim.add(size=5)
    assert tensor_proto.decode(proto).tolist() == array.tolist() + [array.tolist()[-1]] * 3


@given(st.binary(max_size=60))
@LIMIT
def test_any_bytes_are_a_tensor_or_malformed(data: bytes) -> None:
    try:
        proto = tensor_pb2.TensorProto.FromString(data)
    except Exception:
        return
    try:
        array = tensor_proto.decode(proto)
    except tensor_proto.MalformedTensor:
        return
    assert array.size == math.prod(dim.size for dim in proto.tensor_shape.dim)


@each(
    "proto",
    [
        tensor_pb2.TensorProto(),
        tensor_pb2.TensorProto(dtype=20),
        tensor_pb2.TensorProto(dtype=101),
        tensor_pb2.TensorProto(dtype=1, tensor_content=b"123"),
        tensor_pb2.TensorProto(dtype=7, tensor_content=b"\x05a"),
        tensor_pb2.TensorProto(dtype=7, tensor_content=b"\xff"),
    ],
)
def test_malformed(proto: tensor_pb2.TensorProto) -> None:
    with pytest.raises(tensor_proto.MalformedTensor):
        tensor_proto.decode(proto)


@each("before", range(9))
def test_content_anywhere_in_memory_is_read_as_aligned_numbers(before: int) -> None:
    array = np.arange(5, dtype=np.float64)
    memory = memoryview(bytes(before) + array.tobytes())
    proto = tensor_pb2.TensorProto(dtype=dtypes.DT_DOUBLE)
    proto.tensor_shape.dim.add().size = 5
    found = tensor_proto.decode(proto, memory[before:])
    assert found.flags.aligned
    assert found.tolist() == array.tolist()
