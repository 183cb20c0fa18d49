"""Operations that count, or take values from positions."""

from __future__ import annotations

import pytest

from support.graphs import BOOL, FLOAT, INT32, Model


def test_integers_of_the_caller() -> None:
    model = Model(INT32)
    model.node("one", "Const", dtype=INT32)
    model.node("sum", "AddV2", "x", "one")
    assert model.refusal("sum:0", INT32) == "operation AddV2 (sum) computes with int32 of the caller's values"


def test_integers_of_shapes() -> None:
    model = Model()
    model.node("shape", "Shape", "x")
    model.node("two", "Const", dtype=INT32)
    model.node("sides", "Mul", "shape", "two")
    model.node("reshaped", "Reshape", "x", "sides")
    assert model.refusal("reshaped:0") is None


def test_positions_of_the_caller() -> None:
    model = Model(INT32)
    model.node("table", "Const", dtype=FLOAT)
    model.node("axis", "Const", dtype=INT32)
    model.node("row", "GatherV2", "table", "x", "axis")
    assert model.refusal("row:0") == "operation GatherV2 (row) takes positions from the caller"


def test_positions_that_were_counted() -> None:
    model = Model()
    model.node("count", "Const", dtype=INT32)
    model.node("top", "TopKV2", "x", "count")
    model.node("axis", "Const", dtype=INT32)
    model.node("rows", "GatherV2", "x", "top:1", "axis")
    model.node("few", "Less", "top:1", "count")
    model.node("more", "AddV2", "top:1", "count")
    assert model.refusal("rows:0") is None
    assert model.refusal("few:0", BOOL) is None
    assert model.refusal("more:0", INT32) == "operation AddV2 (more) computes with int32 of the caller's values"
    assert model.refusal("top:0") is None
    assert model.refusal("top:1", INT32) is None


@pytest.mark.parametrize(("positions", "refused"), [("two", False), ("shape", True)])
def test_positions_that_depend_on_the_batch(positions: str, refused: bool) -> None:
    """Out of range, TensorFlow raises an error and OpenVINO answers. The canary covers constant positions."""
    model = Model()
    model.node("two", "Const", dtype=INT32)
    model.node("shape", "Shape", "x")
    model.node("cut", "Slice", "x", positions, "two")
    assert model.refusal("cut:0") == ("operation Slice (cut) takes positions from shapes" if refused else None)


def test_images_with_open_sides_are_not_cut() -> None:
    model = Model(shape=(-1, -1, -1, 3))
    model.node("two", "Const", dtype=INT32)
    model.node("cut", "StridedSlice", "x", "two", "two", "two")
    assert model.refusal("cut:0") == "operation StridedSlice (cut) takes from what has open sides"


def test_steps_that_may_be_nothing() -> None:
    """A step of zero ends the process in OpenVINO."""
    model = Model()
    model.node("two", "Const", dtype=INT32)
    model.node("shape", "Size", "x")
    model.node("steps", "Range", "two", "two", "shape")
    assert model.refusal("steps:0", INT32) == "operation Range (steps) takes limits from shapes"
