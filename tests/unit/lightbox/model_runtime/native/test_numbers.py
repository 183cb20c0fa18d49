"""Numbers read in C equal Python's float and int. Numbers written in C equal orjson's."""

from __future__ import annotations

import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightbox.codecs.json_text import array_text
from lightbox.model_runtime.native.numbers import NativeNumbers
from support.parameters import each

MOST = 254
MANY = settings(max_examples=100)


@pytest.fixture(scope="module")
def native(library: Path) -> NativeNumbers:
    return NativeNumbers(library)


def read(native: NativeNumbers, text: str | bytes, code: str = "d") -> npt.NDArray[Any] | None:
    """Read a text from a buffer of exactly its length."""
    octets = np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8).copy()
    return native.read(octets.data, code, MOST)


@st.composite
def decimals(draw: st.DrawFn) -> str:
    """Generate JSON numbers with up to 19 digits and a supported power of ten."""
    digits = str(draw(st.integers(0, 10 ** draw(st.integers(1, 19)) - 1)))
    point = draw(st.integers(0, min(27, len(digits) + 3)))
    padded = digits.rjust(point + 1, "0")
    text = padded[: len(padded) - point] + ("." + padded[len(padded) - point :] if point else "")
    exponent = draw(st.none() | st.integers(-27 + point, 27 + point))
    if exponent is not None:
        text += (
            draw(st.sampled_from("eE")) + draw(st.sampled_from(["", "+"] if exponent >= 0 else [""])) + str(exponent)
        )
    return draw(st.sampled_from(["", "-"])) + text


def halfway() -> st.SearchStrategy[str]:
    """Generate numbers halfway between two float64, and their neighbours; some have up to 19 digits."""
    return st.builds(
        lambda odd, up, off: str((2 * odd + 1) * 2**up + off),
        st.integers(2**52, 2**53 - 1),
        st.integers(0, 9),
        st.integers(-1, 1),
    )


@pytest.mark.extended
@MANY
@given(st.lists(decimals() | halfway(), min_size=1, max_size=20))
@example(["9007199254740993", "9007199254740993.0", "9007199254740992.5", "4503599627370497.5", "4503599627370496.5"])
@example(["0.1", "1e22", "1e23", "8.5e22", "1e-22", "1e-23", "9999999999999999999", "0.000000000000000000000000001"])
@example(["-0", "-0.0", "0e1000", "-0e-1000", "0.00000000000000000000000000000000000000", "1" + "0" * 18 + "e-27"])
@example(["16777217", "16777217.0000000001", "33554433", "1.00000005960464478", "1.000000059604644775"])
def test_each_number_is_pythons(native: NativeNumbers, texts: list[str]) -> None:
    text, expected = f"[{','.join(texts)}]", [float(text) if set(text) & set(".eE") else int(text) for text in texts]
    found, single = read(native, text), read(native, text, "f")
    assert found is not None
    assert found.tobytes() == np.array([float(number) for number in expected]).tobytes()
    with np.errstate(over="ignore"):
        nearest = found.astype(np.float32)
    assert (single is not None) == bool(np.isfinite(nearest).all())
    assert single is None or (single.dtype == np.float32 and single.tobytes() == nearest.tobytes())


@MANY
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_what_python_writes_is_read_or_left(native: NativeNumbers, numbers: list[float]) -> None:
    found = read(native, json.dumps(numbers))
    assert found is None or found.tobytes() == np.array(numbers).tobytes()
    assert found is not None or any(abs(Fraction(number)) > 10**27 or abs(number) < 1e-10 for number in numbers)


@MANY
@given(st.lists(st.integers(-(2**63) - 2, 2**64 + 2), min_size=1, max_size=3))
@example([2**63 - 1, -(2**63)])
@example([2**63])
@example([10**19 - 1])
def test_integers_that_fit_are_read(native: NativeNumbers, numbers: list[int]) -> None:
    for code, low, high in (("q", -(2**63), 2**63 - 1), ("Q", 0, 10**19 - 1)):  # 20 digits are not read in C
        found = read(native, json.dumps(numbers), code)
        assert (found is not None) == all(low <= number <= high for number in numbers)
        assert found is None or found.tolist() == numbers


@each("text", ["[1.0]", "[1e2]", "[1,2.5]", "[-1.0]"])
@each("code", "qQ")
def test_an_integer_has_no_fraction(native: NativeNumbers, text: str, code: str) -> None:
    assert read(native, text, code) is None


@pytest.mark.parametrize(
    ("text", "is_read"),
    [("34028234663852886e22", True), ("34028235677973366e22", False), ("-34028235677973366e22", False)],
)
def test_the_largest_float32(native: NativeNumbers, text: str, is_read: bool) -> None:
    """The midpoint between the largest float32 and the next step (infinity) is about 3.4028235677973366e38."""
    found = read(native, f"[{text}]", "f")
    assert found is None or abs(found.item()) == np.finfo(np.float32).max
    assert (found is not None) == is_read


ZEROS = "0." + "0" * 1004
"""Leading zeros of a fraction. A matching exponent cancels them; otherwise no digit may be lost."""


@each(
    "text",
    [
        *("3402823567797336617e20", "1e39", "9e38", "1e400", "1e28", "1e-28", "1e-" + "9" * 30),
        *(f"{ZEROS}1", f"{ZEROS}1e10001", f"{ZEROS}1e" + "1" * 40),
    ],
)
def test_what_is_too_large_or_small_is_left(native: NativeNumbers, text: str) -> None:
    assert read(native, f"[{text}]", "f") is None


@pytest.mark.parametrize("exponent", ["e1004", "E+1005", "e000001006"])
def test_zeros_and_an_exponent_that_makes_up_for_them(native: NativeNumbers, exponent: str) -> None:
    text = f"{ZEROS}1{exponent}"
    found = read(native, f"[{text}]")
    assert found is not None
    assert found.tolist() == [float(text)]


@pytest.mark.extended
@settings(max_examples=200)
@given(st.text('[], \n\t-+0.1e9"tf', max_size=14).map(lambda inner: f"[{inner}]"))
@example("[ [ 1 ,\r\n2 ] , [ 3 , 4 ] ]")
@example("[[1, 2] 3, [4, 5]]")
@example("[[1], 2 [3]]")
@example("[1]]")
@example("[[1],[2,3]]")
@example("[[1,2],[3]]")
@example("[[1],2]")
@example("[1,[2]]")
@example("[01]")
@example("[1.]")
@example("[.5]")
@example("[+1]")
@example("[1e]")
@example("[1 2]")
@example("[1,]")
@example("[,1]")
@example("[]")
def test_a_text_that_is_read_is_json(native: NativeNumbers, text: str) -> None:
    found = read(native, text)
    if found is not None:
        np.testing.assert_array_equal(found, np.array(json.loads(text), np.float64))


@MANY
@given(
    npst.arrays(np.float32, npst.array_shapes(max_dims=5, max_side=4), elements=st.floats(-9, 9, width=32)), st.data()
)
def test_a_text_without_its_end_is_not_read(
    native: NativeNumbers, array: npt.NDArray[np.float32], data: st.DataObject
) -> None:
    text = json.dumps(array.round(3).tolist())
    whole = read(native, text, "f")
    assert whole is not None
    np.testing.assert_array_equal(whole, np.array(json.loads(text), np.float32))
    assert whole.shape == array.shape
    cut = data.draw(st.integers(0, len(text) - 1))
    assert read(native, text[:cut], "f") is None
    closed = read(native, text[:cut] + "]", "f")
    if closed is not None:
        np.testing.assert_array_equal(closed, np.array(json.loads(text[:cut] + "]"), np.float32))


@pytest.mark.parametrize("text", ["[" * 200_000, "[" * 200_000 + "]" * 200_000, "[" * 255 + "1" + "]" * 255])
def test_deep_nesting_is_left(native: NativeNumbers, text: str) -> None:
    assert read(native, text) is None


def test_as_many_dimensions_as_are_allowed(native: NativeNumbers) -> None:
    found = read(native, "[" * 60 + "1" + "]" * 60)
    assert found is not None
    assert found.shape == (1,) * 60


BITS = st.integers(0, 2**32 - 1).map(lambda bits: struct.unpack("f", struct.pack("I", bits))[0])


@MANY
@given(st.lists(BITS, min_size=1, max_size=20), npst.array_shapes(max_dims=5, max_side=5), st.integers(0, 2**32 - 1))
def test_few_values_are_written_as_one_by_one(
    native: NativeNumbers, values: list[float], shape: tuple[int, ...], seed: int
) -> None:
    array = np.random.default_rng(seed).choice(np.array(values, np.float32), shape)
    found = native.distinct(array)
    assert found is not None
    distinct, index = found
    assert distinct[index].tobytes() == array.tobytes()
    text = native.write(index, shape, array_text(distinct)[1:-1].split(b","))
    assert bytes(text) == array_text(array)


def test_many_values_are_left(native: NativeNumbers) -> None:
    assert native.distinct(np.arange(2048, dtype=np.float32)) is not None
    assert native.distinct(np.arange(2049, dtype=np.float32)) is None


def test_values_that_a_caller_has_chosen_to_share_a_slot_have_no_numbers(native: NativeNumbers) -> None:
    """Each value would be compared with all others, at 0.5 µs per number."""
    bits = np.arange(0x3F000000, 0x3F000000 + (1 << 20), dtype=np.uint32)
    sharing = bits[bits * np.uint32(2654435761) >> 19 == 5].view(np.float32)
    assert 32 < len(sharing) <= 2048
    assert native.distinct(np.tile(sharing[:32], 2)) is not None
    assert native.distinct(sharing) is None
