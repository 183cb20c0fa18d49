"""CSV: one row per instance."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lightbox.base.errors import InputMismatch, MalformedBody
from lightbox.model.spec import Array
from support.decoding import decode, tensor
from support.parameters import each

CSV = "text/csv"


@each(
    ("body", "shape", "expected"),
    [
        ("1\n2\n", (None,), [1, 2]),
        ("1,2\n3,4", (None, 2), [[1, 2], [3, 4]]),
        ("1,2\r\n3,4\r\n", (None, 2), [[1, 2], [3, 4]]),
        ("1\n2\n", (None, 1), [[1], [2]]),
        ("1\n2\n", None, [1, 2]),
        ("1,2\n", None, [[1, 2]]),
        ("+4,.5\n1e5,-0", (None, 2), [[4, 0.5], [100000, 0]]),
        ("5., 1E+2 \n -.5e-1,\t3", (None, 2), [[5, 100], [-0.05, 3]]),
        ('"4","5"', (None, 2), [[4, 5]]),
        ("1,2\n\n\n3,4\n\n", (None, 2), [[1, 2], [3, 4]]),
        ("\ufeff1,2", (None, 2), [[1, 2]]),
        ("-inf,inf\nInfinity,+INF", (None, 2), [[-np.inf, np.inf], [np.inf, np.inf]]),
    ],
)
def test_rows_of_numbers(body: str, shape: tuple[int | None, ...] | None, expected: object) -> None:
    found = tensor(body, CSV, "float32", shape)
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_not_a_number_is_a_number() -> None:
    assert np.isnan(tensor("nan\nNaN\n", CSV)).all()


def test_a_header_is_left_out_when_it_is_said_to_be_there() -> None:
    assert tensor("a,b\n1,2\n", "text/csv; header=present", "int32", (None, 2)).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a\nb\n", [b"a", b"b"]),
        ('"a, b"\n"say ""hi"""\n"two\nlines"\n', [b"a, b", b'say "hi"', b"two\nlines"]),
        ("1\ncafé\n", [b"1", "café".encode()]),
    ],
)
def test_fields_for_a_string_model_are_text(body: str, expected: list[bytes]) -> None:
    assert tensor(body, CSV, "string").tolist() == expected


def test_a_field_may_be_as_long_as_a_body() -> None:
    long = "A" * 300_000
    assert tensor(f"{long}\n{long}\n", CSV, "string").tolist() == [long.encode()] * 2
    assert tensor("0" * 300_000 + "7", CSV, "float32").tolist() == [7]


def test_a_long_field_that_is_no_number_is_refused_without_trying_every_way_to_read_it() -> None:
    with pytest.raises(MalformedBody, match="row 1, field 1"):
        tensor("1" * 1_000_000 + "_", CSV)


def test_a_charset_is_honoured() -> None:
    assert tensor("café".encode("latin-1"), "text/csv; charset=iso-8859-1", "string").tolist() == ["café".encode()]


def test_whole_numbers_are_exact_and_a_point_does_no_harm() -> None:
    assert tensor("9223372036854775807\n", CSV, "int64").tolist() == [(1 << 63) - 1]
    assert tensor("4.0\n1e2\n", CSV, "uint8").tolist() == [4, 100]
    assert tensor("true\nFALSE\n1\n0\n", CSV, "bool").tolist() == [True, False, True, False]


@each(
    ("body", "dtype", "said"),
    [
        ("1,2\n3\n", "float32", "row 2 has 1 fields, row 1 has 2"),
        ("1,2\n3,x\n", "float32", "row 2, field 2: expected float32 for the input x, got 'x'"),
        ("1,\n", "float32", "row 1, field 2"),
        ("1,1_0\n", "float32", "row 1, field 2"),
        ("1,\u0661\n", "float32", "row 1, field 2"),
        ("1,0x10\n", "float32", "row 1, field 2"),
        ("1,1e400\n", "float64", "row 1, field 2"),
        ("1,-1e400\n", "float32", "row 1, field 2"),
        ("1,x\n", "int32", "row 1, field 2"),
        ("1,2\n", "bool", "row 1, field 2"),
        ('1,"2\n', "float32", "CSV"),
        ('1,"2"3\n', "float32", "CSV"),
        ("", "float32", "no row"),
        ("\n\n", "string", "no row"),
    ],
)
def test_a_malformed_body_names_the_row(body: str, dtype: str, said: str) -> None:
    with pytest.raises(MalformedBody, match=said):
        tensor(body, CSV, dtype, (None, 2))


@each(
    ("body", "dtype"),
    [
        ("1e39", "float32"),
        ("70000", "float16"),
        ("256", "uint8"),
        ("-1", "uint64"),
        ("18446744073709551616", "uint64"),
        ("1.5", "int32"),
        ("nan", "int32"),
        ("1e30", "int64"),
        ("9223372036854775808.0", "int64"),
        ("1", "complex64"),
        ("1", "bfloat16"),
    ],
)
def test_no_value_wraps_around(body: str, dtype: str) -> None:
    with pytest.raises(InputMismatch, match="input x"):
        tensor(body, CSV, dtype)


def test_models_that_rows_do_not_fit_say_so() -> None:
    with pytest.raises(InputMismatch, match="expected one field per row"):
        tensor("1,2\n", CSV)
    with pytest.raises(InputMismatch, match=r"\[-1,2,2\]"):
        tensor("1,2,3,4\n", CSV, "float32", (None, 2, 2))
    with pytest.raises(InputMismatch, match="carries one input"):
        decode("1,2\n", CSV, {"a": ("float32", (None,)), "b": ("float32", (None,))})


FLOATS64 = hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)))


@pytest.mark.extended
@given(FLOATS64)
def test_any_table_comes_back(array: Array) -> None:
    body = "\n".join(",".join(map(repr, row)) for row in array.tolist())
    np.testing.assert_array_equal(tensor(body, CSV, "float64", (None, None)), array)


@pytest.mark.extended
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1))
def test_any_text_comes_back(texts: list[str]) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([text] for text in texts)
    assert tensor(stream.getvalue(), CSV, "string").tolist() == [text.encode() for text in texts]


@each("at", [0, 16_383, 16_384, 40_000, 49_999])
def test_the_first_wrong_field_of_a_long_row_is_named(at: int) -> None:
    fields = ["1"] * 50_000
    fields[at] = fields[-1] = "x"
    with pytest.raises(MalformedBody, match=rf"row 1, field {at + 1}: expected float32 for the input x, got 'x'"):
        decode(",".join(fields), CSV, {"x": ("float32", (None, None))})
