"""Arrays that go into TensorFlow's runtime and come out again."""

from __future__ import annotations

import numpy as np
import pytest

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.engines.tensorflow.tf_tensors import from_tensor, to_tensor
from lightbox.model_runtime.wire import dtypes

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_numbers_come_back(shape: tuple[int, ...]) -> None:
    for number in dtypes.PLAIN.values():
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtypes.numpy_dtype(number))
        result = from_tensor(to_tensor(array))
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array)


def test_other_layouts_of_memory_are_read_in_their_order() -> None:
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::-1].T
    np.testing.assert_array_equal(from_tensor(to_tensor(array)), array)


@pytest.mark.parametrize("array", [np.array("ü"), np.array([[b"", b"a\0b"]], object), np.array([b"x" * 100], object)])
def test_texts_are_bytes(array: Array) -> None:
    expected = [text if isinstance(text, bytes) else text.encode() for text in array.ravel().tolist()]
    result = from_tensor(to_tensor(array))
    assert (result.shape, result.ravel().tolist()) == (array.shape, expected)
