from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightbox.base.errors import BadRequest, InputMismatch
from lightbox.model.image_options import image_problems
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, ImageInput, SignatureSpec, TensorSpec
from support.parameters import each

Shape = tuple[int | None, ...] | None


def signature(**inputs: tuple[str, Shape]) -> SignatureSpec:
    specs = {name: TensorSpec(name, dtype, shape) for name, (dtype, shape) in inputs.items()}
    return SignatureSpec("net", 3, "serving_default", specs, {"y": TensorSpec("y", "float32", (None,))})


@each(
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
    assert signature(x=(dtype, shape)).image == expected


PIXELS = ImageInput("x", False, True, "float32", 224, 200)
OPEN = ImageInput("x", False, True, "float32")


@each(
    ("wanted", "options", "key", "said"),
    [
        (replace(PIXELS, dtype="uint8"), {"scaling": "tf"}, "scaling", "'tf' makes fractions, but the model's input x"),
        (replace(PIXELS, dtype="int32"), {"scaling": "unit"}, "scaling", "makes fractions"),
        (
            replace(PIXELS, dtype="uint8"),
            {"mean": [3, 3, 3]},
            "mean",
            "makes fractions, but the model's input",
        ),
        (replace(PIXELS, channels=1), {"scaling": "torch"}, "scaling", "for 3 channels, but the model's input x has 1"),
        (replace(PIXELS, channels=1), {"scaling": "caffe"}, "scaling", "is for 3 channels"),
        (replace(PIXELS, channels=1), {"channels": "bgr"}, "channels", "'bgr' is for 3 channels"),
        (PIXELS, {"mean": [1, 2, 3, 4]}, "mean", "expected 3 numbers, one for each channel of the input x, got 4"),
        (PIXELS, {"std": [1, 2]}, "std", "expected 3 numbers"),
        (replace(PIXELS, channels=1), {"std": [1, 2, 3]}, "std", "expected 1 numbers"),
        (PIXELS, {"fit": "letterbox", "pad": [1, 2, 3, 4]}, "pad", "expected 3 numbers"),
        (OPEN, {"fit": "letterbox"}, "fit", "'letterbox' needs a fixed size, but the input x has none; set image_size"),
        (replace(OPEN, width=9), {"fit": "crop"}, "fit", "'crop' needs a fixed size"),
        (PIXELS, {"fit": "crop", "resize_shorter": 223}, "resize_shorter", "expected at least 224, .* got 223"),
        (PIXELS, {"layout": "NCHW"}, "layout", "shows that it is not NCHW"),
        (replace(PIXELS, encoded=True), {"fit": "crop"}, "fit", "takes files, which the model decodes itself"),
        (replace(PIXELS, encoded=True), {"channels": "bgr"}, "channels", "takes files, which the model decodes itself"),
        (replace(PIXELS, encoded=True), {"std": [2]}, "std", "takes files, which the model decodes itself"),
    ],
)
def test_what_pictures_cannot_follow_is_named(wanted: ImageInput, options: dict[str, Any], key: str, said: str) -> None:
    ((found, problem),) = image_problems(ModelOptions(**options), wanted)
    assert found == key
    assert re.search(said, problem)


@each(
    ("wanted", "options"),
    [
        (PIXELS, {"scaling": "torch"}),
        (replace(PIXELS, dtype="float16", channels=1), {"scaling": "tf", "mean": [0.5], "pad": 7, "fit": "letterbox"}),
        (replace(PIXELS, dtype="uint8"), {"channels": "bgr", "fit": "crop", "resize_shorter": 224}),
        (OPEN, {"fit": "letterbox", "image_size": 640}),
        (replace(OPEN, channels_first=True), {"layout": "NCHW"}),
        (replace(PIXELS, encoded=True, dtype="string"), {"scaling": "tf"}),
    ],
)
def test_what_they_can_follow_is_no_problem(wanted: ImageInput, options: dict[str, Any]) -> None:
    assert list(image_problems(ModelOptions(**options), wanted)) == []


@each(
    ("shape", "layout", "taken"),
    [
        ((None,) * 4, "NHWC", ImageInput("x", False, True, "float32")),
        ((None,) * 4, "NCHW", ImageInput("x", False, True, "float32", channels_first=True)),
        (None, "NCHW", ImageInput("x", False, True, "float32", channels_first=True)),
        ((1, None, None, None), "NHWC", ImageInput("x", False, True, "float32")),
        ((None,) * 4, None, None),
        ((None, 5, None, None), "NCHW", None),
        ((None, 224, 200, 3), "NCHW", PIXELS),
    ],
)
def test_a_layout_says_what_an_open_shape_does_not(shape: Shape, layout: str | None, taken: ImageInput | None) -> None:
    assert signature(x=("float32", shape)).with_layout(layout).image == taken


@pytest.mark.parametrize("dtype", ["int8", "bool"])
def test_what_cannot_hold_a_pixel_takes_no_image(dtype: str) -> None:
    assert signature(x=(dtype, (None, 2, 2, 3))).image is None


def test_two_inputs_take_no_image() -> None:
    assert signature(x=("string", (None,)), y=("string", (None,))).image is None


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


@each(
    ("shape", "misfit", "rank_problem"),
    [
        ((4, 2), None, None),
        ((4, 3), "input a: expected shape [-1,2], got [4,3]", None),
        ((4,), "input a: expected shape [-1,2], got [4]", "input a: expected shape [-1,2], got one of rank 1"),
        ((), "input a: expected shape [-1,2], got []", "input a: expected shape [-1,2], got one of rank 0"),
        ((4, 2, 1), "input a: expected shape [-1,2], got [4,2,1]", None),
    ],
)
def test_shapes_are_reported_but_not_refused(
    shape: tuple[int, ...], misfit: str | None, rank_problem: str | None
) -> None:
    inputs = good() | {"a": np.zeros(shape, "f4")}
    GOOD.check_inputs(inputs)
    assert GOOD.misfit(inputs) == misfit
    assert GOOD.rank_problem({name: array.ndim for name, array in inputs.items()}, 0) == rank_problem


def test_numbers_without_a_declared_rank_need_what_the_graph_needs() -> None:
    found = signature(x=("float32", None), text=("string", None))
    assert found.rank_problem({"x": 0, "text": 0}, 0) is found.rank_problem({"x": 4, "text": 1}, 4) is None
    assert found.rank_problem({"x": 3, "text": 1}, 4) == "input x: expected a rank of at least 4, got 3"


def test_a_missing_input_is_named() -> None:
    with pytest.raises(InputMismatch, match="got s"):
        GOOD.check_inputs({"s": np.array([b"x"], object)})


def test_unknown_outputs_are_named() -> None:
    GOOD.check_outputs(["y"])
    with pytest.raises(BadRequest, match="gives y; got z"):
        GOOD.check_outputs(["y", "z"])


@each(
    ("inputs", "outputs", "expected"),
    [
        ([(None, 3)], [(None, 2)], True),
        ([(1, 3)], [(1, 2)], True),
        ([(1, 3)], [(None, 2)], False),
        ([(None, 3)], [(5, 2)], False),
        ([(5, 3)], [(5, 2)], True),
        ([(None, 3)], [(1, 2)], True),
        ([(None, 3), (None,)], [(None, 2), (None,)], True),
        ([(1, 3)], [(1, 2), (None,)], False),
        ([None], [(None, 2)], True),
        ([(1, 3)], [None, ()], True),
    ],
)
def test_which_outputs_have_a_row_for_each_input(inputs: list[Shape], outputs: list[Shape], expected: bool) -> None:
    takes, gives = (
        {f"{name}{at}": TensorSpec(f"{name}{at}", "float32", shape) for at, shape in enumerate(shapes)}
        for name, shapes in (("x", inputs), ("y", outputs))
    )
    found = SignatureSpec("net", 1, "serving_default", takes, gives)
    assert found.gives_rows(["another", *gives]) is expected
    counting = {name: replace(spec, has_own_rows=True) for name, spec in gives.items()}
    assert replace(found, outputs=counting).gives_rows(gives) is (inputs == [None] or outputs == [None, ()])


def test_inputs_of_different_rows_do_not_fit_each_other() -> None:
    spec = signature(a=("float32", (None, 3)), b=("float32", (None,)), c=("float32", (5, None)), d=("float32", ()))
    fitting = {name: np.zeros(shape) for name, shape in (("a", (2, 3)), ("b", (2,)), ("c", (5, 7)), ("d", ()))}
    assert spec.rows_apart(fitting) is None
    said = "inputs: expected the same number of rows, got a [2,3] and b [3]"
    assert spec.rows_apart(fitting | {"b": np.zeros(3)}) == said
