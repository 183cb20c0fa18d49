"""REST responses: the JSON of any outputs reads back as the same values."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightbox.model_runtime.server.rest.rest_json import error_body, write_predict
from support.parameters import each

Array = np.ndarray[Any, np.dtype[Any]]
LIMIT = settings(max_examples=100, deadline=None)
ODD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3.4028235e38, 1.17549435e-38, 0.1], np.float32)


def parsed(body: bytes) -> Any:
    return json.loads(body.decode("utf-8", "surrogateescape"))


def reads_back(values: Any, array: Array) -> None:
    """Check for equal values of the same kind: floats have a point or an exponent, denormals are zero."""
    kind = {"f": float, "b": bool}.get(array.dtype.kind, int)
    assert {type(value) for value in np.array(values, object).reshape(-1).tolist()} <= {kind}
    found = np.array(values, array.dtype).reshape(array.shape)
    if array.dtype.kind == "f":
        array = np.where(np.abs(array) < np.finfo(array.dtype).tiny, np.copysign(0, array), array)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(array[array == 0]))
    np.testing.assert_array_equal(found, array)


DTYPES = [np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64, np.bool_]
ARRAYS = st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)).flatmap(
    lambda drawn: npst.arrays(drawn[0], (2, *drawn[1]))
)


@pytest.mark.parametrize("by_row", [True, False])
def test_numbers_read_back(by_row: bool) -> None:
    @LIMIT
    @given(st.dictionaries(st.sampled_from("abc"), ARRAYS, min_size=1))
    def check(outputs: dict[str, Array]) -> None:
        body = parsed(write_predict(outputs, by_row))
        assert list(body) == ["predictions" if by_row else "outputs"]
        (found,) = body.values()
        for name, array in outputs.items():
            columns = {name: found} if len(outputs) == 1 else found
            reads_back([row[name] for row in found] if by_row and len(outputs) > 1 else columns[name], array)

    check()


@each("by_row", [True, False])
@each("dtype", [np.float32, np.float64])
def test_what_is_not_finite_and_what_is_denormal(by_row: bool, dtype: Any) -> None:
    for array in (ODD.astype(dtype), ODD.astype(dtype).reshape(5, 2)):
        (found,) = parsed(write_predict({"x": array}, by_row)).values()
        flushed = np.where(np.isin(ODD, ODD[5:7]), np.copysign(0, ODD), ODD).astype(dtype).reshape(array.shape)
        reads_back(found, flushed if dtype == np.float32 else array)


def test_any_float32_reads_back() -> None:
    bits = np.random.default_rng(5).integers(0, 1 << 32, 100_000, np.uint32).view(np.float32)
    for values in (bits, bits[np.isfinite(bits)]):
        reads_back(parsed(write_predict({"x": values}, True))["predictions"], values)


def test_floats_have_the_fewest_digits() -> None:
    values = np.array([0.1, 1 / 3, 16777216, 1e-5], np.float32)
    assert write_predict({"x": values}, True) == b'{"predictions":[0.1,0.33333334,16777216.0,0.00001]}'


@pytest.mark.parametrize("by_row", [True, False])
def test_strings_and_bytes(by_row: bool) -> None:
    values = [b"a", b"", b'q"\\\n\x01', "é漢😀".encode(), b"\xff\xfeA", b"null"]
    array = np.empty(6, object)
    array[:] = values
    (found,) = parsed(write_predict({"x": array.reshape(3, 2)}, by_row)).values()
    flat = [text.encode("utf-8", "surrogateescape") for row in found for text in row]
    assert flat == values
    (found,) = parsed(write_predict({"x_bytes": array}, by_row)).values()
    assert [base64.b64decode(item["b64"]) for item in found] == values


@each("array", [np.float32(3), np.array(b"a", object), np.array(np.nan), np.array(True)])
def test_an_output_without_rank_is_a_value(array: Any) -> None:
    (found,) = parsed(write_predict({"x": np.asarray(array)}, False)).values()
    assert not isinstance(found, list)


@pytest.mark.parametrize("by_row", [True, False])
def test_arrays_of_another_memory_layout_are_written_in_order(by_row: bool) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    body = write_predict({"x": array}, by_row)
    assert write_predict({"x": np.asfortranarray(array)}, by_row) == body
    assert write_predict({"x": array.astype(">f4")}, by_row) == body


def test_an_error_is_json_whatever_it_quotes() -> None:
    assert json.loads(error_body('"\udcff\ud800" é')) == {"error": '"??" é'}
