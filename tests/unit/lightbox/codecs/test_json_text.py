"""JSON of arrays: orjson's speed, with NaN and infinities as TensorFlow Serving writes them."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lightbox.codecs import json_text
from lightbox.model.spec import Prediction
from lightbox.model_runtime.wire.predict_messages import Array
from support.memory_use import PeakGrowth
from support.parameters import each

FLOATS = hnp.arrays(
    st.sampled_from(["f2", "f4", "f8", ">f4"]).map(np.dtype),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    elements={"allow_nan": True, "allow_infinity": True},
)


@given(FLOATS)
def test_any_floats_come_back(array: Array) -> None:
    for form in (array, array.T, np.ascontiguousarray(array).astype(array.dtype.newbyteorder())):
        found = json.loads(json_text.to_json({"null": [form]}))["null"][0]
        np.testing.assert_array_equal(np.asarray(found, form.dtype).reshape(form.shape), form)
        assert json_text.array_text(form) == json_text.to_json(form)


def test_what_is_not_finite_keeps_its_place() -> None:
    array = np.array([[np.nan, 1.5], [-np.inf, np.inf]], np.float32)
    assert json_text.to_json(array) == b"[[NaN,1.5],[-Infinity,Infinity]]"
    assert json_text.to_json(np.float32(np.nan)) == b"NaN"


def test_what_json_cannot_hold_is_a_type_error() -> None:
    for value in (np.array([1j]), {1, 2}):
        with pytest.raises(TypeError):
            json_text.to_json(value)
    with pytest.raises(TypeError):
        json_text.array_text(np.array([1j]))


@each("shape", [(0, 3), (3, 0), (70_000,), (20_000, 2), (1, 40_000, 1), (3, 20_000, 2), (20_000, 1, 1)])
def test_many_rows_are_written_as_few(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    assert json_text.array_text(array) == orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)


def test_the_memory_is_that_of_the_text() -> None:
    """orjson by itself takes 100 bytes for each row."""
    array = np.ones((1 << 20, 1), np.float32)
    growth = PeakGrowth()
    text = json_text.array_text(array)
    assert growth.mb() < 4 * len(text) / 1e6


@each(
    "prediction",
    [
        Prediction({"y": np.ones((1, 3), np.float32)}, batch=1),
        Prediction({"y": np.array([np.nan])}, batch=1),
        Prediction({"y": np.ones((1, 2)), "names": np.array([b"a"], object)}, batch=1),
        Prediction({"y": np.ones((2, 3))}, batch=2),
        Prediction({"y": np.ones((1, 3))}),
        Prediction({"y": np.ones((1, 3))}, batch=1, ranked=lambda mark=None: [b'[{"label":"cat"}]']),
        Prediction({"y": np.ones((2, 3))}, batch=2, ranked=lambda mark=None: [b"[]", b"[]"]),
        Prediction({"y": np.ones((1, 3))}, batch=1, ranked=lambda mark=None: None),
    ],
)
def test_the_only_row_is_that_of_the_document(prediction: Prediction) -> None:
    document = json_text.from_json(json_text.encode_document(prediction))
    rows = document.get("predictions", [])
    expected = rows[0] if len(rows) == 1 else document
    assert repr(json_text.from_json(json_text.encode_row(prediction))) == repr(expected)
