"""Guards report when TensorFlow might answer differently. A TopK of many values takes the first of equal ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest
from numpy.typing import NDArray

from lightbox.model_runtime.engines.openvino.guards import LARGE, LARGEST, LONG, OUT_OF_RANGE, TIED, add_guards
from support.parameters import each

F32, I32 = openvino.Type.f32, openvino.Type.i32
Outputs = list[NDArray[Any]]


def compiled(nodes: list[Any], *parameters: Any) -> tuple[list[str], Callable[..., Outputs]]:
    """Return the names of a model's guards, and a function that returns the outputs of model and guards."""
    model = openvino.Model(nodes, list(parameters))
    names = add_guards(model)
    request = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    return names, lambda *inputs: [np.array(value) for value in request.infer(list(inputs)).values()]


@each(
    ("positions", "is_outside"),
    [([0, 3], False), ([3, 3], False), ([0, 4], True), ([-1, 0], True), ([], False), ([2**31 - 1], True)],
)
def test_positions_that_are_computed(positions: list[int], is_outside: bool) -> None:
    values, asked = ops.parameter([-1, 4], F32), ops.parameter([-1], I32)
    names, run = compiled([ops.gather(values, asked, ops.constant(1))], values, asked)
    assert names == [OUT_OF_RANGE]
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    found, guard = run(data, np.array(positions, np.int32))
    assert bool(guard) == is_outside
    if not is_outside:
        np.testing.assert_array_equal(found, data[:, positions])


@each(("position", "is_outside"), [([1, 2], False), ([2, 0], True), ([0, 3], True), ([-1, 0], True)])
def test_positions_of_several_dimensions(position: list[int], is_outside: bool) -> None:
    values, asked = ops.parameter([-1, 3], F32), ops.parameter([-1, 2], I32)
    names, run = compiled([ops.gather_nd(values, asked)], values, asked)
    assert names == [OUT_OF_RANGE]
    *_, guard = run(np.zeros((2, 3), np.float32), np.array([[0, 0], position], np.int32))
    assert bool(guard) == is_outside


def test_positions_that_no_value_changes_need_no_guard() -> None:
    values = ops.parameter([-1, 4], F32)
    rows = ops.gather(ops.shape_of(values), ops.constant(0), ops.constant(0))
    first = ops.gather(values, ops.constant([0]), ops.constant(1))
    assert compiled([first, ops.broadcast(ops.constant(1.0), ops.reshape(rows, [1], False))], values)[0] == []


SIZE, COUNT = LONG + 500, 40


@each("rows", [1, 3])
@each("levels", [3, 200, 10**6])
def test_the_first_of_equal_values_are_taken(rows: int, levels: int) -> None:
    values = ops.parameter([-1, SIZE], F32)
    top = ops.topk(values, ops.constant(COUNT), 1, "max", "value", "i32", stable=True)
    names, run = compiled([top.output(0), top.output(1)], values)
    assert names == [TIED]
    unique = 0
    for seed in range(30):
        data = np.random.default_rng(seed).integers(-levels, levels, (rows, SIZE)).astype(np.float32)
        order = np.argsort(-data, axis=1, kind="stable")
        ranked = np.take_along_axis(data, order, 1)
        found, positions, guard = run(data)
        np.testing.assert_array_equal(found, ranked[:, :COUNT])
        assert bool(guard) == bool((ranked[:, COUNT - 1] == ranked[:, COUNT]).any())
        if not guard:
            unique += 1
            np.testing.assert_array_equal(positions, order[:, :COUNT])
    assert unique > 20 or levels < 1000


def test_equal_values_before_the_last_are_taken_in_order() -> None:
    values = ops.parameter([SIZE], F32)
    top = ops.topk(values, ops.constant(COUNT), 0, "max", "value", "i64", stable=True)
    _, run = compiled([top.output(1)], values)
    data = -np.arange(SIZE, dtype=np.float32)
    data[[7, 2000, 2400]] = 5.0
    positions, guard = run(data)
    assert not guard
    assert positions.dtype == np.int64
    assert positions[:5].tolist() == [7, 2000, 2400, 0, 1]


@pytest.mark.parametrize(("size", "count", "stable"), [(LONG, 10, True), (SIZE, SIZE, True), (SIZE, 10, False)])
def test_what_is_quick_already_is_left(size: int, count: int, stable: bool) -> None:
    values = ops.parameter([size], F32)
    top = ops.topk(values, ops.constant(count), 0, "max", "value", "i32", stable=stable)
    assert compiled([top.output(1)], values)[0] == []


@each(("value", "is_large"), [(1.0, False), (13.0, False), (14.0, True), (100.0, True)])
def test_large_exponentials(value: float, is_large: bool) -> None:
    values = ops.parameter([-1], F32)
    names, run = compiled([ops.relu(ops.exp(values))], values)
    assert names == [LARGE]
    _, guard = run(np.array([0.0, value], np.float32))
    assert bool(guard) == is_large == bool(np.exp(value) > LARGEST)
