"""Maps of an input in the size of its image. The figures of filters are torch's, by ``interpolate``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightbox.base.errors import InputMismatch, ModelFailed
from lightbox.heads import ranking_problem
from lightbox.heads.maps import areas_of, placed_maps
from lightbox.images.preparation import Placed, Placement
from lightbox.model.options import MapName, ModelOptions
from lightbox.model.spec import Array, ModelCall, SignatureSpec, TensorSpec
from support.parameters import each

PIXELS = SignatureSpec("net", 1, "s", {"x": TensorSpec("x", "float32", (None, 3, 8, 8))}, {})
WHOLE = Placement((8, 8))
CLASSES = ModelOptions(map="classes")


def placed(values: Any, options: ModelOptions, *places: Placed) -> Array:
    array = np.asarray(values)
    shape = (None, *array.shape[1:])
    signature = replace(PIXELS, outputs={"y": TensorSpec("y", array.dtype.name, shape)})
    call = ModelCall(signature, {"x": np.zeros((len(places), 3, 8, 8), np.float32)}, placed=places)
    found = placed_maps({"y": array}, options, call)
    assert found is not None
    return found["y"]


@each(
    ("kind", "expected"),
    [
        ("depth", [-0.08681, 0.40625, 1.21296, 1.78704, 2.59375, 3.08681]),
        ("ultralytics-depth", [0.0, 0.6, 1.2, 1.8, 2.4, 3.0]),
    ],
)
def test_numbers_are_resized_by_the_filter_of_their_library(kind: MapName, expected: list[float]) -> None:
    row = np.tile(np.array([0, 1, 2, 3], np.float32), (1, 1, 4, 1))
    found = placed(row, ModelOptions(map=kind), Placed((6, 4), WHOLE))
    assert found.shape == (1, 4, 6)
    np.testing.assert_allclose(found[0], [expected] * 4, atol=1e-4)


def test_the_class_of_the_largest_logit_between_pixels() -> None:
    logits = np.zeros((1, 2, 1, 2), np.float32)
    logits[0, 0] = [1, -1]
    logits[0, 1] = [-3, 1]
    found = placed(logits, CLASSES, Placed((8, 2), WHOLE))
    assert found.dtype == np.uint8
    assert found[0].tolist() == [[0, 0, 0, 0, 0, 1, 1, 1]] * 2  # both are equal at two thirds of the way
    first = placed(np.moveaxis(logits, 1, 3), ModelOptions(map="classes", labels=("a", "b")), Placed((8, 2), WHOLE))
    assert np.array_equal(first, found)


def test_numbers_of_classes_keep_their_values() -> None:
    numbers = np.array([[[3, 3, 7, 7]] * 4], np.uint8)
    assert placed(numbers, CLASSES, Placed((8, 1), WHOLE))[0].tolist() == [[3, 3, 3, 3, 7, 7, 7, 7]]
    many = placed(numbers.astype(np.int64) * 100, CLASSES, Placed((4, 1), WHOLE))
    assert (many.dtype.name, many[0].tolist()) == ("uint16", [[300, 300, 700, 700]])


@pytest.mark.parametrize("side", [8, 4])
def test_padding_is_left_out(side: int) -> None:
    numbers = np.zeros((1, side, side), np.uint8)
    numbers[:, side // 4 : -side // 4, side // 2 :] = 5
    found = placed(numbers, CLASSES, Placed((16, 8), Placement((8, 4), 0, 2)))
    assert (found[0, :, :8] == 0).all() and (found[0, :, 8:] == 5).all()


def test_images_of_several_sizes_and_outputs_of_other_forms() -> None:
    numbers = np.zeros((2, 4, 4), np.uint8)
    with pytest.raises(InputMismatch, match="one size in a request, got 6x6 and 7x6"):
        placed(numbers, CLASSES, Placed((6, 6), WHOLE), Placed((7, 6), WHOLE))
    with pytest.raises(ModelFailed, match="numbers for 1 images"):
        placed(numbers, CLASSES, Placed((6, 6), WHOLE))


@each(
    ("options", "shape", "sentence"),
    [
        ({}, (None, 150, 16, 16), None),
        ({}, (None, 16, 16), None),
        ({"labels": ("a", "b")}, (None, 3, 16, 16), "a label for each of the 3 classes of the output y, got 2"),
        ({}, (None, 1, 16, 16), r"expected one output of \[batch, classes, height, width\]"),
        ({}, (None, 10), "name one in outputs"),
        ({"fit": "crop"}, (None, 150, 16, 16), "of an image that is cut"),
        ({"map": "depth"}, (None, 1, 16, 16), None),
        ({"map": "depth"}, (None, 2, 16, 16), "or with a channel"),
    ],
)
def test_which_outputs_are_maps(options: dict[str, Any], shape: tuple[int | None, ...], sentence: str | None) -> None:
    signature = replace(PIXELS, outputs={"y": TensorSpec("y", "float32", shape)})
    problem = ranking_problem(ModelOptions(**{"map": "classes", **options}), signature)
    assert (problem is None) if sentence is None else sentence.replace("\\", "") in str(problem)


def test_the_areas_of_a_map() -> None:
    numbers = np.array([[2, 2, 0], [2, 0, 0]], np.uint8)
    found = {area.number: (area.share, area.lengths.tolist()) for area in areas_of(numbers)}
    assert found == {0: (0.5, [3, 3]), 2: (0.5, [0, 3, 3])}
    assert [area.lengths.tolist() for area in areas_of(np.full((2, 2), 4, np.uint8))] == [[0, 4]]
