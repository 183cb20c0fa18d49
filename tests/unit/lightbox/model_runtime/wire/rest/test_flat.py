"""Long bodies with one array: the flat reader gives the list readers' result, or leaves the body to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightbox.model_runtime.native import numbers
from lightbox.model_runtime.native.numbers import NativeNumbers
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest import flat
from lightbox.model_runtime.wire.rest.json_document import load
from lightbox.model_runtime.wire.rest.predict_body import read_predict, read_predict_document
from lightbox.model_runtime.wire.status import StatusError, invalid
from support.parameters import each

Array = np.ndarray[Any, np.dtype[Any]]
LIMIT = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True, params=[True, False], ids=["compiled", "by Python"])
def every_length(library: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    native = NativeNumbers(library) if request.param else None
    with monkeypatch.context() as patched:
        patched.setattr(flat, "MIN_BYTES", 0)
        patched.setattr(numbers, "load", lambda: native)
        yield


def outcome(body: bytes, by_lists: bool, number: int = dtypes.DT_FLOAT) -> tuple[Any, ...]:
    types = {"x": number}
    try:
        found = read_predict_document(load(body), lambda _: types) if by_lists else read_predict(body, lambda _: types)
    except StatusError as refused:
        return refused.code, refused.message
    array = found.inputs["x"]
    return found.signature_name, found.by_row, array.dtype, array.shape, array.tobytes()


SHAPES = npst.array_shapes(min_dims=1, max_dims=5, max_side=4)
ARRAYS = {
    dtypes.DT_FLOAT: npst.arrays(np.float32, SHAPES, elements=st.floats(-(2.0**99), 2.0**99, width=32)),
    dtypes.DT_INT32: npst.arrays(np.int32, SHAPES),
    dtypes.DT_UINT64: npst.arrays(np.uint64, SHAPES),
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda values: {"instances": values},
    "whole": lambda values: {"inputs": values},
    "named": lambda values: {"inputs": {"x": values}},
    "with a signature": lambda values: {"signature_name": "s", "instances": values},
}


@pytest.mark.extended
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", ARRAYS)
def test_a_regular_array_is_read(form: str, number: int) -> None:
    @settings(LIMIT, max_examples=40)
    @given(ARRAYS[number], st.sampled_from([(", ", ": "), (",", ":")]))
    def check(array: Array, separators: tuple[str, str]) -> None:
        body = json.dumps(FORMS[form](array.tolist()), separators=separators).encode()
        found = flat.read(body, lambda _: {"x": number})
        assert found is not None
        name, inputs, by_row = found
        assert (name, by_row) == ("s" * (form == "with a signature"), "instances" in body.decode())
        np.testing.assert_array_equal(inputs["x"], array)
        assert inputs["x"].dtype == array.dtype

    check()


PLACES = st.tuples(st.integers(0, 60), st.integers(0, 1), st.text('[], -0.e5tnf\n"{}', max_size=3))


@pytest.mark.extended
@given(npst.arrays(np.int8, SHAPES), st.lists(PLACES, max_size=2), st.booleans(), st.booleans())
@LIMIT
def test_a_text_with_faults_is_read_or_refused_as_before(
    array: Array, faults: list[tuple[int, int, str]], spaces: bool, by_row: bool
) -> None:
    text = json.dumps({"instances" if by_row else "inputs": array.tolist()}, separators=None if spaces else (",", ":"))
    for place, removed, added in faults:
        text = text[:place] + added + text[place + removed :]
    for number in (dtypes.DT_FLOAT, dtypes.DT_INT32):
        assert outcome(text.encode(), False, number) == outcome(text.encode(), True, number)


@each(
    "text",
    [
        *[
            "[1 [, 2]]",
            "[[1, 2], 3 [4]]",
            "[[1, 2] 3, [4, 5]]",
            "[[1], 2 [3]]",
            "[[1, 2], [3]]",
            "[[1, 2], [3, 4]",
            "[]]",
        ],
        *[
            "[[true, 1]]",
            "[[1, false]]",
            "[[null, 1]]",
            '[["1", "2"]]',
            '["["]',
            "[[], []]",
            "[]",
            "[[[]]]",
            "[{}, {}]",
        ],
        *["[[1, 2],\n [3, 4]]", "[ [ 1 , 2 ] , [ 3 , 4 ] ]", "[1e39]", "[NaN, Infinity]", "[[01, 1]]", "[1.]", "[-]"],
        *["[" * 40 + "1" + "]" * 40, "[" * 70 + "1" + "]" * 70, "[\\1]", "[1]]", "[[1]"],
    ],
)
@each("around", ['{"inputs": %s}', '{"instances": %s}', '{"inputs": 1, "inputs": %s}', '{"y": %s}'])
def test_what_is_not_regular_is_read_or_refused_as_before(text: str, around: str) -> None:
    body = (around % text).encode()
    assert outcome(body, False) == outcome(body, True)


def test_a_fault_in_the_array_is_reported_before_an_unknown_signature() -> None:
    def unknown(name: str) -> dict[str, int]:
        raise invalid(f"no signature {name}")

    with pytest.raises(StatusError, match="JSON Parse error"):
        read_predict(b'{"instances": [[1, 2], [3 4]]}', unknown)


@pytest.mark.parametrize("text", ["[" * 200_000, "[" * 200_000 + "]" * 200_000, "[[" + "],[" * 200_000 + "]]"])
def test_brackets_alone_take_no_time(text: str) -> None:
    assert flat.read(b'{"inputs": ' + text.encode() + b"}", lambda _: {"x": dtypes.DT_FLOAT}) is None
