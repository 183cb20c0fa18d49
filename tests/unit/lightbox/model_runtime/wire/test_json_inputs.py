"""JSON bodies in both directions: exactness, and rules for every reader."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightbox.model_runtime.server.rest.rest_json import write_predict
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest.json_document import load, pairs
from lightbox.model_runtime.wire.rest.json_inputs import read_predict
from lightbox.model_runtime.wire.status import Code, StatusError
from support.parameters import each

Array = np.ndarray[Any, np.dtype[Any]]
LIMIT = settings(max_examples=60, deadline=None)
SHAPES = npst.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
CARRIED = {
    dtypes.DT_FLOAT: npst.arrays(np.float32, SHAPES, elements=st.floats(width=32, allow_subnormal=False)),
    dtypes.DT_DOUBLE: npst.arrays(np.float64, SHAPES, elements=st.floats(allow_subnormal=False)),
    dtypes.DT_INT32: npst.arrays(np.int32, SHAPES),
    dtypes.DT_UINT8: npst.arrays(np.uint8, SHAPES),
    dtypes.DT_INT16: npst.arrays(np.int16, SHAPES),
    dtypes.DT_INT8: npst.arrays(np.int8, SHAPES),
    dtypes.DT_INT64: npst.arrays(np.int64, SHAPES),
    dtypes.DT_BOOL: npst.arrays(np.bool_, SHAPES),
    dtypes.DT_UINT32: npst.arrays(np.uint32, SHAPES),
    dtypes.DT_UINT64: npst.arrays(np.uint64, SHAPES),
    dtypes.DT_STRING: npst.arrays(object, SHAPES, elements=st.binary(max_size=6)),
}


def read(body: bytes, **types: int) -> dict[str, Array]:
    return read_predict(body, lambda name: types).inputs


def error(body: bytes, number: int = dtypes.DT_FLOAT) -> str:
    with pytest.raises(StatusError) as caught:
        read(body, x=number)
    return caught.value.message


@pytest.mark.extended
@pytest.mark.parametrize("number", sorted(CARRIED))
@pytest.mark.parametrize("by_row", [True, False])
def test_what_is_written_can_be_sent_back(number: int, by_row: bool) -> None:
    @LIMIT
    @given(CARRIED[number])
    def check(array: Array) -> None:
        body = write_predict({"x_bytes": array}, by_row)
        key, answer = ("instances", "predictions") if by_row else ("inputs", "outputs")
        found = read(body.replace(f'"{answer}"'.encode(), f'"{key}"'.encode(), 1), x_bytes=number)["x_bytes"]
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found, array)

    check()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["instances", "inputs", "signature_name", "x"]), JSON_VALUES, max_size=3))
@LIMIT
def test_any_document_is_read_or_refused(document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    for number in (dtypes.DT_FLOAT, dtypes.DT_UINT8, dtypes.DT_STRING, dtypes.DT_HALF):
        try:
            found = read(body, x=number)["x"]
        except StatusError as refused:
            assert refused.code in (Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED)
        else:
            assert found.dtype == dtypes.numpy_dtype(number)


@given(st.binary(max_size=40) | st.text('{}[]",:0123456789.eE+-InfNa\\u truefalsn', max_size=30).map(str.encode))
@LIMIT
def test_any_bytes_are_a_document_or_an_error(body: bytes) -> None:
    try:
        load(body)
    except StatusError as refused:
        assert refused.message.startswith("JSON Parse error: ")


@given(JSON_VALUES, st.text("x \n", max_size=3))
@LIMIT
def test_a_document_is_read_as_the_standard_library_does(value: Any, after: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.dumps(load(f"{text} {after}".encode())) == json.dumps(json.loads(text))


# --------------------------------------------------------------- malformed JSON


@each(
    ("body", "offset"),
    [
        *[(b" ", 1), (b"}", 0), (b"nul", 0), (b"{1}", 1), (b'{"a" 1}', 5), (b'{"a":1 "b"}', 7), (b"[1 2]", 3)],
        *[(b'["\\x"]', 2), (b'["\\u12g4"]', 3), (b'["\\ud800x"]', 2), (b'["a', 1), (b"[1.]", 2), (b"[1e]", 2)],
        *[(b"[1e309]", 1), (b"[-1e400]", 1), (b"[-]", 1), (b"[Infinit]", 1), (b"[1,", 3), (b"[", 1), (b'{"a":', 5)],
        *[(b'{"a":1', 6), (b'["\xff", x]', 6), (b"\xef\xbb\xbf[x]", 1), (b"[1" + b"0" * 400 + b"]", 1)],
    ],
)
def test_malformed(body: bytes, offset: int) -> None:
    with pytest.raises(StatusError) as caught:
        load(body)
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert re.fullmatch(rf"JSON Parse error: .+ at offset: {offset}", caught.value.message)


def test_an_empty_body_has_no_position() -> None:
    assert error(b"") == "JSON Parse error: The document is empty"


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"NaN" + b"]" * 900])
def test_deep_nesting_is_refused_or_read(body: bytes) -> None:
    try:
        load(body)
    except StatusError as refused:
        assert refused.message.startswith("JSON Parse error: The values are nested too deep.")


def test_a_quote_that_is_never_closed_takes_no_time() -> None:
    """The reader scans the strings of a text that contains "Inf". This one has a million escaped quotes."""
    assert error(b'["Inf", "' + b'\\"' * 1_000_000).startswith("JSON Parse error: Unterminated string")


@each(
    ("body", "value"),
    [
        *[(b"\xef\xbb\xbf[1]", [1]), (b"[1] trailing", [1]), (b"[1]\x00", [1]), (b"[-Inf]", [-math.inf])],
        (b'["Inf \\"Inf", Inf]', ['Inf "Inf', math.inf]),
        *[(b'["\\u00e9\\ud83d\\ude00"]', ["\u00e9\U0001f600"]), (b'["\xff"]', ["\udcff"])],
        *[
            (b"[18446744073709551616]", [1.8446744073709552e19]),
            (b"[-9223372036854775809]", [-9.223372036854775808e18]),
        ],
        *[(b"[1e-400]", [0.0]), (b"[0.1]", [0.1]), (b"[1E+2]", [100.0])],
    ],
)
def test_what_is_taken_beyond_the_standard(body: bytes, value: Any) -> None:
    assert load(body) == value


def test_of_a_name_given_twice_the_first_counts() -> None:
    document = load(b'{"a": 1, "a": [2]}')
    assert document["a"] == 1
    assert pairs(document) == [("a", 1), ("a", [2])]


# --------------------------------------------------------------- refused documents


@each(
    ("body", "text"),
    [
        (b"{}", "JSON: expected one of 'instances' and 'inputs', got neither"),
        (b"[" * 900 + b"]" * 900, "JSON: expected an object, got a list"),
        (b'{"inputs": [[1], 2]}', "input x: expected lists of 1 values at depth 1, got 2"),
        (b'{"inputs": [1, [2]]}', "input x[1]: expected float, got a list"),
        (b'{"inputs": [[1, 2], [3]]}', "input x: expected lists of 2 values at depth 1, got 1 values"),
        (b'{"inputs": [[1, 2], [3, true]]}', "input x[1][1]: expected float, got true"),
        (b'{"inputs": {"y": 1}}', "inputs: expected an object with x; got y"),
        (b'{"instances": [{"x": 1}, 2]}', "instances[1]: expected an object with x; got 2"),
        (b'{"inputs": 1e39}', "input x: a number is beyond the range of float"),
    ],
)
def test_refused(body: bytes, text: str) -> None:
    assert error(body) == text


def test_no_inputs_at_all() -> None:
    with pytest.raises(StatusError, match="Failed to get input map for signature: DEFAULT"):
        read_predict(b'{"inputs": 1}', lambda name: {})


@each(
    ("outputs", "text"),
    [
        ({}, "Cannot convert empty tensor map to JSON"),
        ({"a": np.float32(1)}, "Tensor name: a has no shape information "),
        ({"a": np.zeros((0, 2))}, "Tensor name: a has invalid batch size: 0"),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "Tensor name: b has inconsistent batch size: 3 expecting: 2"),
        ({"a": np.zeros(2, np.float16)}, "Failed to write JSON value for tensor type: half"),
    ],
)
def test_answers_that_have_no_row_form(outputs: dict[str, Any], text: str) -> None:
    with pytest.raises(StatusError) as caught:
        write_predict({name: np.asarray(array) for name, array in outputs.items()}, by_row=True)
    assert caught.value.message == text


LONG = b"1.5," * 700_000


@pytest.mark.parametrize("fault", [b"x]", b"1e999]"])
def test_of_long_malformed_bodies_the_place_is_reported_too(fault: bytes) -> None:
    with pytest.raises(StatusError, match=f" at offset: {1 + len(LONG)}$"):
        load(b"[" + LONG + fault)


def test_long_bodies_with_escapes_and_infinities_are_read() -> None:
    document = load(b'{"a": ["\\u00e9", "\\"", Infinity, ' + LONG + b"NaN]}")
    assert document["a"][:3] == ["\u00e9", '"', math.inf]
