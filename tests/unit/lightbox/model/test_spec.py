from __future__ import annotations

import numpy as np
import pytest

from lightbox.core.errors import BadRequest, InputMismatch
from lightbox.model.spec import Array, ImageInput, SignatureSpec, TensorSpec, image_input, scaling_problem

Shape = tuple[int | None, ...] | None


def signature(**inputs: tuple[str, Shape]) -> SignatureSpec:
    specs = {name: TensorSpec(name, dtype, shape) for name, (dtype, shape) in inputs.items()}
    return SignatureSpec("net", 3, "serving_default", specs, {"y": TensorSpec("y", "float32", (None,))})


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        ("float32", (None, 224, 200, 3), ImageInput("x", False, True, "float32", 224, 200, 3)),
        ("uint8", (1, 640, 640, 3), ImageInput("x", False, True, "uint8", 640, 640, 3)),
        ("uint8", (None, None, None, 3), ImageInput("x", False, True, "uint8", None, None, 3)),
        ("float32", (28, 28, 1), ImageInput("x", False, False, "float32", 28, 28, 1)),
        ("string", (None,), ImageInput("x", True, True, "string")),
        ("string", (), ImageInput("x", True, False, "string")),
        ("string", None, ImageInput("x", True, True, "string")),
        ("float32", (None, 3, 224, 200), ImageInput("x", False, True, "float32", 224, 200, 3, channels_first=True)),
        ("uint8", (3, None, None), ImageInput("x", False, False, "uint8", None, None, 3, channels_first=True)),
        ("float32", (1, 1, 8, 8), ImageInput("x", False, True, "float32", 8, 8, 1, channels_first=True)),
        ("float32", (1, 80, 300), None),
        ("float32", (None, 3, 8, 3), ImageInput("x", False, True, "float32", 3, 8, 3)),
        ("float32", (None, 4, 8, 8), None),
        ("float32", (None, 10), None),
        ("float32", None, None),
        ("string", (None, None), None),
        ("bool", (None, 8, 8, 3), None),
    ],
)
def test_how_an_image_reaches_a_model(dtype: str, shape: Shape, expected: ImageInput | None) -> None:
    assert image_input(signature(x=(dtype, shape))) == expected


@pytest.mark.parametrize(
    ("scaling", "dtype", "channels", "said"),
    [
        ("tf", "uint8", 3, "'tf' makes fractions, but the model's input x is uint8"),
        ("unit", "int32", 3, "makes fractions"),
        ("torch", "float32", 1, "is for 3 channels, but the model's input x has 1"),
        ("caffe", "float32", 1, "is for 3 channels"),
        ("torch", "float32", 3, None),
        ("tf", "float16", 1, None),
        ("none", "uint8", 3, None),
    ],
)
def test_impossible_scalings_are_named(scaling: str, dtype: str, channels: int, said: str | None) -> None:
    problem = scaling_problem(scaling, ImageInput("x", False, True, dtype, 2, 2, channels))
    assert problem is None if said is None else problem is not None and said in problem


@pytest.mark.parametrize("dtype", ["int8", "bool"])
def test_what_cannot_hold_a_pixel_takes_no_image(dtype: str) -> None:
    assert image_input(signature(x=(dtype, (None, 2, 2, 3)))) is None


def test_two_inputs_take_no_image() -> None:
    assert image_input(signature(x=("string", (None,)), y=("string", (None,)))) is None


GOOD = signature(a=("float32", (None, 2)), s=("string", (None,)))


def good() -> dict[str, Array]:
    return {"a": np.zeros((4, 2), "f4"), "s": np.array([b"x"], object)}


def test_what_fits_passes() -> None:
    GOOD.check_inputs(good())
    signature(x=("float32", None)).check_inputs({"x": np.zeros((1, 2, 3), "f4")})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"a": np.zeros((4, 2), "f8")}, r"input a: expected dtype float32, got float64"),
        ({"s": np.zeros(1, "f4")}, r"input s: expected dtype string, got float32"),
        ({"b": np.zeros(1, "f4")}, r"takes a \(float32 \[-1,2\]\), s \(string \[-1\]\); got a, b, s"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Array], said: str) -> None:
    with pytest.raises(InputMismatch, match=said):
        GOOD.check_inputs(good() | change)


@pytest.mark.parametrize(
    ("shape", "misfit", "too_low"),
    [
        ((4, 2), None, None),
        ((4, 3), "input a: expected shape [-1,2], got [4,3]", None),
        ((4,), "input a: expected shape [-1,2], got [4]", "input a: expected shape [-1,2], got one of rank 1"),
        ((), "input a: expected shape [-1,2], got []", "input a: expected shape [-1,2], got one of rank 0"),
        ((4, 2, 1), "input a: expected shape [-1,2], got [4,2,1]", None),
    ],
)
def test_shapes_are_told_but_not_refused(shape: tuple[int, ...], misfit: str | None, too_low: str | None) -> None:
    inputs = good() | {"a": np.zeros(shape, "f4")}
    GOOD.check_inputs(inputs)
    assert GOOD.misfit(inputs) == misfit
    assert GOOD.too_low({name: array.ndim for name, array in inputs.items()}, 0) == too_low


def test_numbers_without_a_declared_rank_need_what_the_graph_needs() -> None:
    found = signature(x=("float32", None), text=("string", None))
    assert found.too_low({"x": 0, "text": 0}, 0) is found.too_low({"x": 4, "text": 1}, 4) is None
    assert found.too_low({"x": 3, "text": 1}, 4) == "input x: expected a rank of at least 4, got 3"


def test_a_missing_input_is_named() -> None:
    with pytest.raises(InputMismatch, match="got s"):
        GOOD.check_inputs({"s": np.array([b"x"], object)})


def test_unknown_outputs_are_named() -> None:
    GOOD.check_outputs(["y"])
    with pytest.raises(BadRequest, match="gives y; got z"):
        GOOD.check_outputs(["y", "z"])
