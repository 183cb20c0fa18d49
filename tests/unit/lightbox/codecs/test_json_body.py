"""JSON in all its forms: TensorFlow Serving's requests, and plain values."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lightbox.base.errors import BadRequest, InputMismatch, MalformedBody, TooLarge, UnsupportedMediaType
from lightbox.model.spec import Array, Layout
from support.decoding import TEXTS, decode, tensor
from support.fakes import Tensor
from support.parameters import each

TWO: dict[str, Tensor] = {"a": ("float32", (None, 2)), "k": ("int32", (None,))}


@each(
    "body",
    [
        '{"instances": [1, 2.5]}',
        '{"instances": [{"x": 1}, {"x": 2.5}]}',
        '{"inputs": [1, 2.5]}',
        '{"inputs": {"x": [1, 2.5]}}',
        '{"signature_name": "other", "instances": [1, 2.5]}',
        "[1, 2.5]",
        "[1.0, 25e-1]",
        "1 2.5",
        "1\n2.5\n",
        "1\r\n\r\n2.5\r\n",
        '{"x": 1}{"x": 2.5}',
        '{"x": 1} {"x":\n2.5}',
        '[{"x": 1}, {"x": 2.5}]',
        '\ufeff{"instances": [1, 2.5]}',
    ],
)
def test_the_same_two_instances(body: str) -> None:
    for content_type in ("application/json", "application/jsonlines", "application/jsons; charset=utf-8", ""):
        assert decode(body, content_type).inputs["x"].tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("body", "layout"),
    [
        ('{"instances": [1]}', Layout.INSTANCES),
        ("[1]", Layout.INSTANCES),
        ('{"inputs": [1]}', Layout.COLUMNS),
    ],
)
def test_the_answer_takes_the_form_of_the_request(body: str, layout: Layout) -> None:
    assert decode(body).layout is layout


@each(
    ("body", "shape", "expected"),
    [
        ("[1, 2, 3]", (None,), [1, 2, 3]),
        ("[1, 2, 3]", (None, 3), [[1, 2, 3]]),
        ("[[1, 2, 3]]", (None, 3), [[1, 2, 3]]),
        ("[1, 2, 3] [4, 5, 6]", (None, 3), [[1, 2, 3], [4, 5, 6]]),
        ("[1, 2, 3]\n[4, 5, 6]\n", (None, 3), [[1, 2, 3], [4, 5, 6]]),
        ("[1, 2]", None, [[1, 2]]),
        ("[[1, 2], [3, 4]]", None, [[1, 2], [3, 4]]),
        ("[[1, 2], [3, 4]]", (2, 2), [[1, 2], [3, 4]]),
        ("5", (None,), [5]),
        ('{"inputs": 5}', (), 5),
        ('{"inputs": []}', (None,), []),
    ],
)
def test_a_bare_list_is_one_instance_where_only_the_batch_is_missing(
    body: str, shape: tuple[int | None, ...] | None, expected: object
) -> None:
    assert tensor(body, shape=shape).tolist() == expected


def test_several_inputs_come_by_name() -> None:
    rows = decode('{"instances": [{"a": [1, 2], "k": 3}, {"k": -1, "a": [4.5, 5]}]}', inputs=TWO).inputs
    columns = decode('{"inputs": {"a": [[1, 2], [4.5, 5]], "k": [3, -1], "unknown": 0}}', inputs=TWO).inputs
    bare = decode('{"a": [1, 2], "k": 3}\n{"a": [4.5, 5], "k": -1}', inputs=TWO).inputs
    for inputs in (rows, columns, bare):
        assert inputs["a"].tolist() == [[1, 2], [4.5, 5]]
        assert inputs["k"].tolist() == [3, -1]
        assert inputs["k"].dtype == np.int32


def test_strings_are_text_or_base64() -> None:
    request = decode('["caf\\u00e9", {"b64": "/wA="}]', inputs=TEXTS)
    assert request.inputs["text"].tolist() == ["café".encode(), b"\xff\x00"]


@each(
    ("dtype", "value"),
    [
        ("uint8", "256"),
        ("uint8", "-1"),
        ("int8", "128"),
        ("int8", "-129"),
        ("uint16", "65536"),
        ("int16", "32768"),
        ("int32", "2147483648"),
        ("int64", "9223372036854775808"),
        ("uint32", "-1"),
        ("uint64", "18446744073709551616"),
        ("uint64", "1" + "0" * 30),
        ("int32", "1.5"),
        ("uint8", "1.5"),
        ("int64", "1e3"),
        ("float16", "70000"),
        ("float32", "1e39"),
        ("float32", "1" + "0" * 60),
        ("float64", "1e400"),
        ("float64", "-1e400"),
        ("float64", "1" + "0" * 400),
        ("float64", "1" + "0" * 5000),
        ("float32", "true"),
        ("int32", "false"),
        ("float32", "null"),
        ("float32", '"1"'),
        ("bool", "1"),
        ("string", "1"),
        ("string", "null"),
        ("bfloat16", "1"),
        ("complex64", "1"),
    ],
)
def test_no_value_wraps_around_or_is_taken_for_another(dtype: str, value: str) -> None:
    for body in (f'{{"instances": [{value}]}}', f'{{"inputs": [{value}]}}', f"[{value}]"):
        with pytest.raises((InputMismatch, MalformedBody)):
            tensor(body, dtype=dtype)
    with pytest.raises((InputMismatch, MalformedBody)):
        tensor(f"[{value}, NaN]", dtype=dtype)


@each(
    ("dtype", "values"),
    [
        ("uint8", [0, 255]),
        ("int8", [-128, 127]),
        ("uint16", [0, 65535]),
        ("int16", [-32768, 32767]),
        ("int32", [-(1 << 31), (1 << 31) - 1]),
        ("uint32", [0, (1 << 32) - 1]),
        ("int64", [-(1 << 63), (1 << 63) - 1]),
        ("uint64", [0, (1 << 64) - 1]),
        ("float16", [0.5, 65504.0]),
        ("bool", [True, False]),
    ],
)
def test_the_whole_range_of_every_dtype(dtype: str, values: list[object]) -> None:
    found = tensor(json.dumps(values), dtype=dtype)
    assert found.dtype.name == dtype
    assert found.tolist() == values


@each(
    "body",
    [
        "",
        "  \n",
        "hello",
        "{'instances': [1]}",
        '{"instances": [1,]}',
        '{"instances": [.5]}',
        '{"instances": [1]} x',
        "1-2",
        "1.02.0",
        "true1",
        '{"instances": [1]',
        '{"instances": 1}',
        '{"instances": []}',
        '{"instances": [1], "inputs": [1]}',
        '{"signature_name": 3, "instances": [1]}',
        '{"\\ud800": 1}',
        "[" * 100_000,
        '{"a":' * 20_000 + "1" + "}" * 20_000,
        b'{"instances": ["\xff"]}',
        b"\xff\xfe[\x00",
    ],
)
def test_a_malformed_body_is_said_to_be_so(body: bytes | str) -> None:
    with pytest.raises(MalformedBody) as raised:
        decode(body)
    assert len(raised.value.message) < 300


@each(
    "body",
    [
        "[]",
        "null",
        "{}",
        '{"z": 1}',
        '[{"x": 1}, {"z": 1}]',
        '[{"x": 1}, 2]',
        '[1, {"x": 2}]',
        '{"inputs": {"z": [1]}}',
        '{"instances": [[1, 2], [3]]}',
        '{"instances": [[1, 2], 3]}',
        "[" * 900 + "]" * 900,
        '{"inputs": ' + "[" * 900 + "1" + "]" * 900 + "}",
        '{"instances": [' + '{"a":' * 300 + "1" + "}" * 300 + "]}",
    ],
)
def test_what_does_not_fit_the_signature_is_a_mismatch(body: str) -> None:
    with pytest.raises(InputMismatch) as raised:
        tensor(body)
    assert len(raised.value.message) < 500


def test_a_wrong_name_says_what_was_expected() -> None:
    with pytest.raises(InputMismatch, match=r"^instances\[1\]: expected an object with a, k; got k, z$"):
        decode('[{"a": [1, 2], "k": 1}, {"k": 3, "z": 1}]', inputs=TWO)


def test_examples_are_for_another_method() -> None:
    with pytest.raises(BadRequest, match="tfs-method=classify"):
        decode('{"examples": [{"x": 1}]}')


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_shows_the_encoding(encoding: str) -> None:
    assert decode('["ä€𝄞"]'.encode(encoding), inputs=TEXTS).inputs["text"].tolist() == ["ä€𝄞".encode()]


@each("charset", ["utf-8", "UTF-8", '"utf-8"', "iso-8859-1", "utf-16le", "utf-16be", "windows-1252"])
def test_a_charset_is_honoured(charset: str) -> None:
    body = '["ä"]'.encode(charset.strip('"'))
    assert decode(body, f"application/json; charset={charset}", TEXTS).inputs["text"].tolist() == ["ä".encode()]


@each("charset", ["klingon", "idna", "zlib", ""])
def test_an_unknown_charset_is_unsupported(charset: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="charset"):
        decode("[1]", f'application/json; charset="{charset}"')


@pytest.mark.extended
@pytest.mark.parametrize("body", ["1 " * 1_000_001, "1\n" * 1_000_001 + "2 3", "\n" * 1_000_001 + "1 2"])
def test_very_many_values_one_after_another_are_too_large(body: str) -> None:
    with pytest.raises(TooLarge, match="send a list"):
        decode(body)


ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int32, np.uint8, np.int64, np.bool_]),
    hnp.array_shapes(min_dims=2, max_dims=4, max_side=4),
)


@pytest.mark.extended
@given(ARRAYS, st.sampled_from(['{"instances": %s}', '{"inputs": %s}', "%s"]))
def test_any_array_comes_back(array: Array, text: str) -> None:
    shape = (None, *array.shape[1:])
    found = tensor(text % json.dumps(array.tolist()), dtype=array.dtype.name, shape=shape)
    np.testing.assert_array_equal(found, array)
