"""Guards: extra outputs of OpenVINO's model that detect calls with possibly other results than TensorFlow's.

Some operations differ only for certain values. TensorFlow refuses positions out of range, which OpenVINO accepts.
TensorFlow takes the first of equal values, for which OpenVINO needs 350 ms to take 1,000 of 76,725. And a result of an
infinite ``Exp`` may be NaN, which OpenVINO can lose. So each call computes whether it is one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from lightbox.model_runtime.engines.openvino.bounds import BEYOND, is_computed

Node = Any
"""A node of OpenVINO's model, or an output of one."""

OUT_OF_RANGE, TIED, LARGE = "guard: out of range", "guard: tied", "guard: large"
REASONS: Mapping[str, str] = {
    BEYOND: "OpenVINO: a position, a length or a step is out of range",
    OUT_OF_RANGE: "OpenVINO: a position is out of range",
    TIED: "OpenVINO: the last of the largest values is equal to the next one",
    LARGE: "OpenVINO: the result of an Exp is large",
}
LARGEST = 1e6
"""Larger floats go to TensorFlow: overflow inside a model may become NaN, which OpenVINO can lose."""
LONG = 2048
"""Number of values from which OpenVINO takes the largest quickly in TensorFlow's order."""


def add_guards(model: Any) -> list[str]:
    """Add guards to a model, and make its TopK operations faster; return the guards' names."""
    import openvino.opset13 as ops

    nodes = model.get_ordered_ops()
    conditions = {
        OUT_OF_RANGE: [_is_out_of_range(node, ops) for node in nodes if _takes_from_computed_positions(node)],
        TIED: [_take_largest_quickly(node, ops) for node in nodes if _takes_largest_of_many(node)],
        LARGE: [_is_large(node, ops) for node in nodes if node.get_type_name() == "Exp" and is_computed(node)],
    }
    names = [name for name, guards in conditions.items() if guards]
    for name in names:
        guard = reduce(ops.logical_or, conditions[name])
        (added,) = model.add_outputs([guard.output(0)])
        added.get_tensor().set_names({name})
    if names:
        model.validate_nodes_and_infer_types()
    return names


def _takes_from_computed_positions(node: Node) -> bool:
    return node.get_type_name() in ("Gather", "GatherND") and is_computed(node.input_value(1).get_node())


def _is_out_of_range(node: Node, ops: Any) -> Node:
    """Return whether a position is negative, or not below the size of its dimension."""
    values, positions = node.input_value(0), ops.convert(node.input_value(1), "i64")
    sizes = ops.shape_of(values, "i64")
    if node.get_type_name() == "Gather":
        limit = ops.gather(sizes, node.input_value(2), _numbers(ops, 0))
    else:
        depth = positions.get_output_partial_shape(0)[-1].get_length()
        first = node.get_attributes()["batch_dims"]
        limit = ops.gather(sizes, _numbers(ops, list(range(first, first + depth))), _numbers(ops, 0))
    outside = ops.logical_or(ops.less(positions, _numbers(ops, 0)), ops.greater_equal(positions, limit))
    return _any(outside, ops)


def _is_large(node: Node, ops: Any) -> Node:
    return _any(ops.greater(node.output(0), ops.constant(np.float32(LARGEST))), ops)


def _any(values: Node, ops: Any) -> Node:
    flat = ops.reshape(values, _numbers(ops, [-1]), False)
    return ops.reduce_logical_or(flat, _numbers(ops, [0]), False)


def _takes_largest_of_many(node: Node) -> bool:
    if node.get_type_name() != "TopK" or not node.get_attributes()["stable"]:
        return False
    size, count = _sizes(node)
    return bool(size.is_static and count.is_static and size.get_length() > max(LONG, count.get_length()))


def _sizes(node: Node) -> tuple[Any, Any]:
    """Return the number of values, and how many of them a TopK takes."""
    axis = node.get_attributes()["axis"]
    return node.input_value(0).get_partial_shape()[axis], node.output(0).get_partial_shape()[axis]


def _take_largest_quickly(node: Node, ops: Any) -> Node:
    """Replace a TopK by an unordered one, sorted afterwards; return whether the choice was ambiguous."""
    values, count = node.input_value(0), _sizes(node)[1].get_length()
    axis, mode, kind = (node.get_attributes()[name] for name in ("axis", "mode", "index_element_type"))
    more = ops.topk(values, _numbers(ops, count + 1), axis, mode, "value", "i32")
    along = _numbers(ops, [axis])

    def part(output: Node, begin: int, end: int) -> Node:
        one = _numbers(ops, [1])
        return ops.slice(output, _numbers(ops, [begin]), _numbers(ops, [end]), one, along)

    tied = ops.equal(part(more.output(0), count - 1, count), part(more.output(0), count, count + 1))
    chosen = part(more.output(1), 0, count)
    in_order = ops.topk(chosen, _numbers(ops, count), axis, "min", "value", "i32").output(0)
    taken = ops.gather_elements(values, in_order, axis)
    ranked = ops.topk(taken, _numbers(ops, count), axis, mode, "value", "i32", stable=True)
    positions = ops.convert(ops.gather_elements(in_order, ranked.output(1), axis), kind)
    node.output(0).replace(ranked.output(0))
    node.output(1).replace(positions.output(0))
    return _any(tied, ops)


def _numbers(ops: Any, value: int | list[int]) -> Node:
    return ops.constant(np.array(value, np.int64))
