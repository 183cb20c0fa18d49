"""Long lists of numbers are read as text. Results and errors equal those of reading them as lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.codecs.json_parsing import parse_around_lists
from lightbox.features.open_inference.rest.body import parse_body
from lightbox.model_runtime.native import numbers
from lightbox.model_runtime.native.numbers import NativeNumbers
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest import number_lists
from lightbox.model_runtime.wire.rest.json_inputs import read_predict
from lightbox.model_runtime.wire.status import StatusError
from support.decoding import decode
from support.fakes import Tensor
from support.parameters import each
from support.patience import PATIENCE

LONG = 1 << 30


@pytest.fixture(autouse=True)
def reader(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "load", lambda: NativeNumbers(library))


ONE: Mapping[str, Tensor] = {"x": ("float32", None)}
TWO: Mapping[str, Tensor] = {"x": ("float32", None), "n": ("int64", None)}


def said(body: bytes, inputs: Mapping[str, Tensor]) -> Any:
    """Return the decoded body, or its error."""
    try:
        found = decode(body, "application/json", inputs)
    except LightboxError as error:
        return type(error), error.message
    return found.layout, {name: (array.dtype, array.shape, str(array.tolist())) for name, array in found.inputs.items()}


def read_as_text(monkeypatch: pytest.MonkeyPatch, yes: bool) -> None:
    monkeypatch.setattr(number_lists, "_MIN_BYTES", 0 if yes else LONG)
    monkeypatch.setattr(number_lists, "_MIN_NUMBERS", 0)
    monkeypatch.setattr(number_lists, "_MIN_LIST", 1)
    monkeypatch.setattr(number_lists, "_PIECE", 3)


BODIES = [
    '{"instances": [[1, 2], [3, 4]]}',
    '{"instances": [1,2,3]}',
    '{"inputs":{"x":[[1.5,2],[3,4e2]]}}',
    '{"inputs":[[[1],[2]]],"signature_name":"s"}',
    '{"signature_name":"s","instances":[{"x":[1,2]},{"x":[3,4]}]}',
    '{"instances":[{"x":[1,2],"n":[5,6]},{"n":[7,8],"x":[3,4]}]}',
    '{"instances":[{"x":[1,2],"n":5},{"x":[3,4],"n":6}]}',
    '{"inputs":{"x":[1,2],"n":[5,6]}}',
    '{"inputs":{"x":[1,2],"n":[5,6.5]}}',
    "[[1,2],[3,4]]",
    "[1,2,3]",
    "[[[1,2],[3,4]]]",
    "[1,2]\n[3,4]\n",
    "[1,2]\n[3,4,5]\n",
    "1\n2\n3",
    "[1,2]\n\n[3,4]",
    "[1,\n2]",
    "[[1,2],\n[3,4]]",
    '{"instances":[[1,2],[3]]}',
    '{"instances":[[1,2],[3,[4]]]}',
    '{"instances":[[1,2],"[3,4,5]"]}',
    '{"instances":"[1,2,3,4]"}',
    '{"instances":[[1,2],[3,4]],"instances":[[5,6]]}',
    '{"instances":[[1,2]],"inputs":[[1,2]]}',
    '{"instances":[[1,2]],"other":[1,2,3]}',
    '{"instances":[[]]}',
    '{"instances":[[],[]]}',
    '{"instances":[[1,,2]]}',
    '{"instances":[[1 2,3]]}',
    '{"instances":[1[2,3]]}',
    '{"instances":[[1e400,2]]}',
    '{"instances":[[1e39,2]]}',
    '{"instances":[[NaN,2,3]]}',
    '{"instances":[[true,2,3],[1,2,3]]}',
    '{"signature_name":[1,2,3],"instances":[[1,2,3]]}',
    '{"instances":[{"x":[1,2]},{"x":[3,4,5]}]}',
    '{"instances":[{"x":[1,2]},{"y":[3,4]}]}',
    '{"instances":["\\u00000",[1,2,3]]}',
    '[{"x":[1,2]}, {"x":[3,4]}]',
    '{"x":[1,2]}\n{"x":[3,4]}',
    '{"x":1}\n{"x":2}\n',
    '{"x":1}\n\n{"x":2}\n',
    '{"x":1}\n{"x":[2]}\n',
    '{"x":1}\n{"x":true}\n',
    '{"x":1,"n":2}\n{"n":3,"x":4}\n{"x":5,"n":6}',
    '{"instances":[{"x":1},{"x":2},{"x":3.5}]}',
    ' { "signature_name" : "s" , "instances" : [ {"x":1},{"x":2} ] } ',
    '{"instances":[{"x":1,"n":2},{"x":3,"n":4.5},{"x":3,"n":4}]}',
    '{"instances":[{"x":1},{"x":2}],"instances":[{"x":3},{"x":4}]}',
    '{"instances":[{"x":1},2,{"x":2}]}',
    '{"instances":[{"x":1},{"x":"},{"}]}',
    '{"instances":[{"x":1},{"x":NaN}]}',
    '{"instances":[{"x":1},{"x":2}]} {"x":1}',
    '{"instances":[{"x":{"b64":"AA=="}},{"x":2}]}',
    '[{"x":1},{"x":2}]',
    '[{"x":1},{"x":2},]',
    '{"x":1},\n{"x":2}',
    '{"x":1},{"x":2}\n{"x":3}',
    '{"x":1}\n{"x":2},{"x":3}',
    '{"signature_name":"[{","instances":[{"x":1},{"x":2}]}',
    '{"instances":[{"x":1},{"x":2}],"other":"]"}',
    '{"inputs":[{"x":1},{"x":2}]}',
    '{"x":[1,2,3]}\n{"x":[4,5,6]}',
    '{"x":[1,2,3]}',
    '["a",[1,2,3]]',
    '[{"x":1},{"x":2}][{"x":3}]',
    '{"instances":1}\n{"instances":2}',
    '{"inputs":{"x":[99999999999999999999,1]}}',
    '{"instances":[[1,2],[3,4]]} [1,2]',
    '{"instances":[[01,2],[3,4]]}',
    '{"instances":[[-,2],[3,4]]}',
    '[{"x":[1,2],"n":5},{"x":[3,4],"n":6}]',
    '{"instances":\x0b[{"x":1},{"x":2}]}',
    '{"instances":[{"x":1},{"x":2}]\x0c}',
    "[1\n2]",
    "[[1,2]\n[3,4]]",
    "[[1],[2]]\n[[3],[4]]",
    "1,2\n3",
]


@pytest.mark.extended
@each("inputs", [ONE, TWO, *({"x": (dtype, None)} for dtype in ("uint8", "bool", "string"))])
@each("body", BODIES)
def test_text_gives_what_lists_give(body: str, inputs: Mapping[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    read_as_text(monkeypatch, yes=False)
    expected = said(body.encode(), inputs)
    read_as_text(monkeypatch, yes=True)
    assert said(body.encode(), inputs) == expected


WIDTHS = ["float32", "float64", "int8", "uint16", "int64", "uint64", "float16"]
nested = st.recursive(
    st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text("[]1,", max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.extended
@given(value=nested, dtype=st.sampled_from(WIDTHS), named=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
def test_any_nesting_gives_what_lists_give(
    value: Any, dtype: str, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"inputs": {"x": value}} if named else {"instances": value}).encode()
    read_as_text(monkeypatch, yes=False)
    expected = said(body, {"x": (dtype, None)})
    read_as_text(monkeypatch, yes=True)
    assert said(body, {"x": (dtype, None)}) == expected


def served(body: bytes, number: int) -> Any:
    """Return what TensorFlow Serving's REST API reads from a body, or its error."""
    try:
        found = read_predict(body, lambda _: {"x": number})
    except StatusError as error:
        return error.code, error.message
    array = found.inputs["x"]
    return found.signature_name, found.by_row, array.dtype, array.shape, array.tobytes()


PLACES = st.tuples(st.integers(0, 60), st.integers(0, 1), st.text('[], -0.e5tnf\n"{}', max_size=3))


@pytest.mark.extended
@given(
    array=npst.arrays(np.int8, npst.array_shapes(max_dims=5, max_side=4)),
    faults=st.lists(PLACES, max_size=2),
    by_row=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
def test_a_text_with_faults_gives_what_lists_give(
    array: Any, faults: list[tuple[int, int, str]], by_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"instances" if by_row else "inputs": array.tolist()})
    for place, removed, added in faults:
        text = text[:place] + added + text[place + removed :]
    for number in (dtypes.DT_FLOAT, dtypes.DT_INT32):
        read_as_text(monkeypatch, yes=False)
        expected = served(text.encode(), number)
        read_as_text(monkeypatch, yes=True)
        assert served(text.encode(), number) == expected


TEXTS = [
    *["[1 [, 2]]", "[[1, 2], 3 [4]]", "[[1, 2] 3, [4, 5]]", "[[1], 2 [3]]", "[[1, 2], [3]]", "[[1, 2], [3, 4]", "[]]"],
    *["[[true, 1]]", "[[1, false]]", "[[null, 1]]", '[["1", "2"]]', '["["]', "[[], []]", "[]", "[[[]]]", "[{}, {}]"],
    *["[[1, 2],\n [3, 4]]", "[ [ 1 , 2 ] , [ 3 , 4 ] ]", "[1e39]", "[NaN, Infinity]", "[[01, 1]]", "[1.]", "[-]"],
    *[
        "[" * 40 + "1" + "]" * 40,
        "[" * 70 + "1" + "]" * 70,
        "[\\1]",
        "[1]]",
        "[[1]",
        "[1e-30]",
        "[123456789012345678901]",
    ],
]
AROUND = ['{"inputs": %s}', '{"instances": %s}', '{"inputs": {"x": %s}}', '{"inputs": 1, "inputs": %s}', '{"y": %s}']


@each("text", TEXTS)
@each("around", AROUND)
def test_what_is_not_regular_gives_what_lists_give(text: str, around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (around % text).encode()
    read_as_text(monkeypatch, yes=False)
    expected = served(body, dtypes.DT_FLOAT)
    read_as_text(monkeypatch, yes=True)
    assert served(body, dtypes.DT_FLOAT) == expected


def test_the_first_of_two_long_lists_of_a_name_counts() -> None:
    first, second = ([number] * 5000 for number in (1, 2))
    body = f'{{"inputs": {first}, "inputs": {second}}}'.encode()
    assert read_predict(body, lambda _: {"x": dtypes.DT_FLOAT}).inputs["x"].tolist() == first


@pytest.mark.parametrize("text", ["[" * 200_000, "[" * 200_000 + "]" * 200_000, "[[" + "],[" * 200_000 + "]]"])
def test_brackets_alone_take_no_time(text: str) -> None:
    with suppress(StatusError):
        read_predict(b'{"inputs": ' + text.encode() + b"}", lambda _: {"x": dtypes.DT_FLOAT})


DATATYPES = [
    "BOOL",
    "FP16",
    "FP32",
    "FP64",
    *(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    "BYTES",
]
DATA = ["[1,2,3,4]", "[[1,2],[3,4]]", "[1.5,2,3,4]", "[300,2,3,-4]", "[1e300,1,1,1]", "[1,2,3]", "[[1],[2],[3],[4]]"]


@each("datatype", DATATYPES)
@each("data", [*DATA, "[70000,65504.0001,1e-9,2049]", '"[1,2]"'])
def test_the_open_inference_protocol_gives_what_lists_give(
    datatype: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = f'{{"name":"x","shape":[2,2],"datatype":"{datatype}","data":{data}}}'
    body = f'{{"inputs":[{entry}],"outputs":[{{"name":"y"}}]}}'.encode()

    def found() -> Any:
        try:
            request = parse_body(body, None, RequestContext(PATIENCE))
        except LightboxError as error:
            return type(error), error.message
        array: Any = request.inputs["x"]
        return array.dtype, array.shape, array.tolist(), request.outputs

    read_as_text(monkeypatch, yes=False)
    expected = found()
    read_as_text(monkeypatch, yes=True)
    assert found() == expected


def test_long_lists_are_taken_out() -> None:
    numbers = b"[" + b"1," * 50_000 + b"1]"
    text = b'{"a":"' + b"x" * 65_536 + b'","instances": ' + numbers + b' ,"b":' + numbers + b"}"
    partial = parse_around_lists(text, RequestContext(PATIENCE))
    assert partial is not None
    assert isinstance(partial.values, list)
    (document,) = partial.values
    assert document["instances"].array(1).shape == (50_001,)
    assert not partial.all_used
    np.testing.assert_array_equal(document["b"].array(9), np.ones(50_001))
    assert partial.all_used


@each("times", [0, 1, 63, 64, 65, 1000])
@each("between", [b"", b"QUJD" * 50])
def test_the_memory_of_a_text_goes_by_all_of_its_structure(times: int, between: bytes) -> None:
    text = between.join([b',[{"\n'] * times) + between
    weights = {b",": 48, b"[": 88, b"{": 200, b'"': 60, b"\n": 32}
    expected = 4 * len(text) + sum(weight * text.count(character) for character, weight in weights.items())
    assert number_lists.parsing_bytes(text) == expected
