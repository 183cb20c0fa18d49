"""JSON bodies in both directions: exactness, and rules for every reader."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightbox.model_runtime.server.rest.rest_json import write_predict
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest.json_inputs import read_predict
from lightbox.model_runtime.wire.status import Code, StatusError
from support.carried_arrays import CARRIED, JSON_VALUES, LIMIT, Array
from support.parameters import each


def read(body: bytes, **types: int) -> dict[str, Array]:
    return read_predict(body, lambda name: types).inputs


def error(body: bytes, number: int = dtypes.DT_FLOAT) -> str:
    with pytest.raises(StatusError) as caught:
        read(body, x=number)
    return caught.value.message


@pytest.mark.extended
@each("number", sorted(CARRIED))
@each("by_row", [True, False])
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
