"""Answers of REST: numbers formatted many at once and lists written in pieces, against the plain way to do it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from model_server.rest_json import floats
from model_server.rest_json.response import predict_pieces, write_predict
from tfs_wire.rest.writer import INDENT, decimals

Array = np.ndarray[Any, np.dtype[Any]]
LIMIT = settings(max_examples=60, deadline=None)
LONG = 2 * floats.CHUNK + 5
FLOATS = {"x": np.arange(LONG, dtype=np.float32) / 7}


def formatted(values: Array) -> list[str]:
    text = floats.texts(values, np.full(len(values), ord(","), np.uint8))
    return text.decode().split(",")[1:]


def neighbours(values: Array) -> Array:
    """The values and the 20 floats next to each on both sides."""
    found = [values]
    for end in (-np.inf, np.inf):
        following = values
        for _ in range(20):
            following = np.nextafter(following, np.float32(end))
            found.append(following)
    return np.concatenate(found)


def random_bits() -> Array:
    return np.random.default_rng(5).integers(0, 1 << 32, 100_000, np.uint32).view(np.float32)


POWERS = np.array([float(f"{sign}1e{exponent}") for sign in ("", "-") for exponent in range(-45, 39)], np.float32)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(random_bits(), id="random bits"),
        pytest.param(neighbours(POWERS), id="powers of ten"),
        pytest.param(neighbours((2.0 ** np.arange(-149, 128)).astype(np.float32)), id="powers of two"),
        pytest.param(np.arange(-1000, 100_000, 7).astype(np.float32), id="whole"),
        pytest.param(np.float32(1) / np.arange(1, 5000, dtype=np.float32), id="fractions"),
        pytest.param(neighbours(np.round(np.arange(0, 30, 0.01), 2).astype(np.float32)), id="hundredths"),
        pytest.param(np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-40], np.float32), id="named"),
    ],
)
def test_floats_have_the_text_that_each_alone_has(values: Array) -> None:
    assert formatted(values) == decimals(values)


@given(npst.arrays(np.float32, st.integers(1, 30), elements=st.floats(width=32)))
@LIMIT
def test_any_floats_have_the_text_that_each_alone_has(values: Array) -> None:
    assert formatted(values) == decimals(values)


# ---------------------------------------------------------------------- lists


def texts(array: Array) -> Array:
    """An array of the texts of the values."""
    floating = array.dtype.kind == "f"
    found = decimals(array.reshape(-1)) if floating else [str(value).lower() for value in array.reshape(-1).tolist()]
    return np.array(found, object).reshape(array.shape)


def one_line(values: Any) -> str:
    return values if isinstance(values, str) else f"[{', '.join(map(one_line, values))}]"


def lines(values: Any, level: int) -> str:
    if isinstance(values, str):
        return values
    if not len(values):
        return "[]"
    inner = "\n" + INDENT * (level + 1)
    return f"[{inner}" + f",{inner}".join(lines(item, level + 1) for item in values) + f"\n{INDENT * level}]"


def expected(outputs: dict[str, Array], by_row: bool) -> str:
    ordered = [(name, texts(array).tolist()) for name, array in sorted(outputs.items())]
    if not by_row and len(outputs) == 1:
        return f'{{\n    "outputs": {lines(ordered[0][1], 1)}\n}}'
    if not by_row:
        items = ",\n".join(f'        "{name}": {lines(values, 2)}' for name, values in ordered)
        return f'{{\n    "outputs": {{\n{items}\n    }}\n}}'
    if len(outputs) == 1:
        return f'{{\n    "predictions": [{", ".join(map(one_line, ordered[0][1]))}\n    ]\n}}'
    rows = (
        "{\n"
        + ",\n".join(f'            "{name}": {one_line(values[index])}' for name, values in ordered)
        + "\n        }"
        for index in range(len(ordered[0][1]))
    )
    return '{\n    "predictions": [\n        ' + ",\n        ".join(rows) + "\n    ]\n}"


DTYPES = [np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_]
ARRAYS = st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)).flatmap(
    lambda drawn: npst.arrays(drawn[0], (2, *drawn[1]))
)


@pytest.mark.parametrize("by_row", [True, False])
def test_lists_are_laid_out_as_the_real_server_does(by_row: bool) -> None:
    @LIMIT
    @given(st.dictionaries(st.sampled_from("abc"), ARRAYS, min_size=1))
    def check(outputs: dict[str, Array]) -> None:
        assert write_predict(outputs, by_row).decode() == expected(outputs, by_row)

    check()


LONG_OUTPUTS = {
    "in one row": {"x": FLOATS["x"][None], "y": np.arange(3.0)[None]},
    "in two rows": {"x": np.stack([FLOATS["x"], FLOATS["x"]]), "y": np.arange(2)},
    "one to a row": {"x": FLOATS["x"], "y": np.arange(LONG), "z": np.arange(LONG) % 2 == 0},
    "deep": {"x": np.resize(FLOATS["x"], (3, 51, 1, 71, 5))},
    "whole": {"x": np.arange(LONG * 2).reshape(2, LONG)},
}


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("case", LONG_OUTPUTS)
def test_what_takes_several_pieces_is_laid_out_the_same(case: str, by_row: bool) -> None:
    found = list(predict_pieces(LONG_OUTPUTS[case], by_row))
    assert b"".join(found).decode() == expected(LONG_OUTPUTS[case], by_row)
    assert len(found) > 1


def test_a_short_answer_is_one_piece() -> None:
    assert len(list(predict_pieces({"x": np.arange(3), "y": np.arange(3)}, True))) == 1


@pytest.mark.parametrize("by_row", [True, False])
def test_arrays_of_another_memory_layout_are_written_in_order(by_row: bool) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    body = write_predict({"x": array}, by_row)
    assert write_predict({"x": np.asfortranarray(array)}, by_row) == body
    assert write_predict({"x": array.astype(">f4")}, by_row) == body
