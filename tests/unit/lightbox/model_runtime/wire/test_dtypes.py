"""The table of dtypes against TensorFlow's and numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from lightbox.model_runtime.wire import dtypes


@pytest.mark.extended
def test_names_and_dtypes_are_tensorflows() -> None:
    import tensorflow as tf

    for number in range(1, 31):
        if row := dtypes.info(number):
            assert tf.dtypes.as_dtype(number).name == {"float": "float32", "double": "float64", "half": "float16"}.get(
                row.name, row.name
            )
            assert tf.dtypes.as_dtype(number).as_numpy_dtype == dtypes.numpy_dtype(number), row.name


def test_numpys_dtypes_have_their_numbers() -> None:
    for name, number in dtypes.PLAIN.items():
        assert (dtypes.number_of(np.dtype(name)), dtypes.numpy_name(number)) == (number, name)
    assert {dtypes.number_of(np.dtype(text)) for text in ("O", "U3", "S3")} == {dtypes.DT_STRING}
    with pytest.raises(KeyError):
        dtypes.number_of(np.dtype("datetime64[s]"))


def test_names_in_error_texts() -> None:
    assert [dtypes.name_of(number) for number in (0, 19, 101, 99)] == [
        *("INVALID", "half", "float_ref", "unknown dtype enum (99)"),
    ]
