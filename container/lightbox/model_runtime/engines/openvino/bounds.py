"""Bounds: what OpenVINO does not check before it reads or writes memory, checked in the model itself.

A last MatMul reads as many numbers as its weights have rows, whatever it gets. Positions are used as they are, and a
Range with steps of 0 ends the process. So sizes are fixed, positions are brought into the tensor, and an extra output
reports those that were not: constants and loops included, whoever computes them. A body of a loop or a condition has no
such output, so a model that computes positions there is refused. Only a Gather stays there: it gives 0 for positions
beyond a tensor, and reads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np

Node = Any
"""A node of OpenVINO's model, or an output of one."""

BEYOND = "guard: beyond"
_SUPPRESSION = re.compile("NonMaxSuppression|Nms")
"""Operations that give positions of boxes."""


def add_bounds(model: Any) -> list[str]:
    """Add bounds to a model; return the name of the output that reports positions outside of them, if any.

    Raises RuntimeError if bounds cannot be added.
    """
    guards = _bounded(model)
    if not guards:
        model.validate_nodes_and_infer_types()
        return []
    (added,) = model.add_outputs([reduce(_ops().logical_or, guards).output(0)])
    added.get_tensor().set_names({BEYOND})
    model.validate_nodes_and_infer_types()
    return [BEYOND]


def _bounded(model: Any, is_body: bool = False) -> list[Node]:
    guards = []
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if kind == "MatMul":
            _fix_size(node)
        elif kind in _BOUNDS:
            positions = node.input_value(_POSITIONS.get(kind, 1)).get_node()
            if is_body and kind == "Gather":
                continue
            found = _BOUNDS[kind](node)
            if is_body and found and is_computed(positions, counts_shapes=True):
                raise RuntimeError(f"{kind} takes computed positions within a loop or a condition")
            guards += found
        elif kind in ("Loop", "TensorIterator"):
            _bounded(node.get_function(), is_body=True)
        elif kind == "If":
            for number in (0, 1):
                _bounded(node.get_function(number), is_body=True)
    return guards


def is_computed(node: Node, counts_shapes: bool = False) -> bool:
    """Return whether a node depends on the values of inputs, or, with ``counts_shapes``, on their shapes."""
    return any(source.get_type_name() == "Parameter" for source in _sources(node, counts_shapes))


def _sources(node: Node, counts_shapes: bool = True) -> Iterator[Node]:
    """Yield a node and all that its values depend on, or, with ``counts_shapes``, their shapes."""
    seen, remaining = set(), [node]
    while remaining:
        node = remaining.pop()
        if node.get_name() not in seen:
            seen.add(node.get_name())
            yield node
            if counts_shapes or node.get_type_name() != "ShapeOf":
                remaining += [source.get_node() for source in node.input_values()]


def _ops() -> Any:
    import openvino.opset13

    return openvino.opset13


def _fix_size(node: Node) -> None:
    """Fix the inner size of a MatMul's first input to that of the second one: a Reshape to another size fails."""
    remaining, right = (node.input_value(at).get_partial_shape() for at in (0, 1))
    if remaining.rank.is_dynamic or right.rank.is_dynamic or min(len(remaining), len(right)) < 2:
        return
    given = node.get_attributes()
    inner, wanted = (-2 if given["transpose_a"] else -1), right[-1 if given["transpose_b"] else -2]
    if remaining[inner].is_static or wanted.is_dynamic:
        return
    sizes = [0] * len(remaining)
    sizes[inner] = wanted.get_length()
    node.input(0).replace_source_output(_ops().reshape(node.input_value(0), _numbers(sizes), True).output(0))


def _gather(node: Node) -> list[Node]:
    """A suppression of boxes may mark those that it drops by -1, for which OpenVINO has rules of its own."""
    ops = _ops()
    values, positions, axis = (node.input_value(at) for at in range(3))
    is_from_end = node.get_type_info().version_id not in ("opset1", "opset7")
    if _are_within(values, positions.get_node(), axis.get_node(), is_from_end):
        return []
    if any(_SUPPRESSION.search(source.get_type_name()) for source in _sources(positions.get_node())):
        return []
    limit = ops.gather(ops.shape_of(values, "i64"), axis, _numbers(0))
    return _bound(node, 1, ops.reshape(limit, _numbers([]), False), is_from_end)


def _are_within(values: Node, positions: Node, axis: Node, is_from_end: bool) -> bool:
    """Return whether positions are constants within a dimension of a known size."""
    shape = values.get_partial_shape()
    if shape.rank.is_dynamic or any(node.get_type_name() != "Constant" for node in (positions, axis)):
        return False
    size, given = shape[int(axis.data.ravel()[0])], positions.data
    if size.is_dynamic:
        return False
    most = size.get_length()
    return bool(((given < most) & (given >= (-most if is_from_end else 0))).all())


def _gather_nd(node: Node) -> list[Node]:
    positions = node.input_value(1)
    depth = positions.get_partial_shape()[-1].get_length()
    first = node.get_attributes().get("batch_dims", 0)
    return _bound(node, 1, _sizes(node.input_value(0), list(range(first, first + depth))), is_from_end=True)


def _scatter_elements(node: Node) -> list[Node]:
    """Also cut the positions and updates to the tensor, along all dimensions but the axis."""
    ops, values, axis = _ops(), node.input_value(0), node.input_value(3)
    guards = _bound(node, 1, ops.gather(ops.shape_of(values, "i64"), axis, _numbers(0)), is_from_end=True)
    rank = len(values.get_partial_shape())
    if axis.get_node().get_type_name() != "Constant":
        raise RuntimeError("ScatterElementsUpdate has an axis that is not constant")
    along = int(axis.get_node().data.ravel()[0]) % rank
    if others := [at for at in range(rank) if at != along]:
        sizes = _sizes(values, others)
        guards.append(_any(ops.greater(_sizes(node.input_value(1), others), sizes)))
        zeros, ones = (_numbers([number] * len(others)) for number in (0, 1))
        for at in (1, 2):
            part = ops.slice(node.input_value(at), zeros, sizes, ones, _numbers(others))
            node.input(at).replace_source_output(part.output(0))
    return guards


def _range(node: Node) -> list[Node]:
    ops, step = _ops(), node.input_value(2)
    if step.get_node().get_type_name() == "Constant":
        return []
    zero, one = (ops.convert_like(_numbers(number), step) for number in (0, 1))
    is_zero = ops.equal(step, zero)
    node.input(2).replace_source_output(ops.select(is_zero, one, step).output(0))
    return [_any(is_zero)]


def _variadic_split(node: Node) -> list[Node]:
    """Replace lengths that the dimension does not have by the whole dimension and zeros."""
    ops, lengths = _ops(), node.input_value(2)
    if lengths.get_node().get_type_name() == "Constant":
        return []
    long = ops.convert(lengths, "i64")
    size = ops.gather(ops.shape_of(node.input_value(0), "i64"), node.input_value(1), _numbers(0))
    known = ops.reduce_sum(ops.maximum(long, _numbers(0)), _numbers([0]))
    is_bad = ops.logical_or(_any(ops.less(long, _numbers(-1))), ops.greater(known, size))
    count = node.get_output_size()
    whole = ops.concat([ops.reshape(size, _numbers([1]), False), _numbers([0] * (count - 1))], 0)
    taken = ops.select(is_bad, whole, long)
    node.input(2).replace_source_output(taken.output(0))
    return [_any(is_bad)]


def _lengths(node: Node) -> list[Node]:
    """CTCGreedyDecoderSeqLen: as long as the sequences at most."""
    ops = _ops()
    return _bound(node, 1, ops.add(_sizes(node.input_value(0), [1]), _numbers(1)))


def _regions(node: Node) -> list[Node]:
    """PSROIPooling: the image of a region is one of the batch."""
    ops, regions = _ops(), node.input_value(1)
    whole, corners = ops.variadic_split(regions, _numbers(1), _numbers([1, 4])).outputs()
    last = ops.convert(ops.subtract(_sizes(node.input_value(0), [0]), _numbers(1)), "f32")
    inside = ops.minimum(ops.maximum(whole, ops.constant(np.float32(0))), last)
    node.input(1).replace_source_output(ops.concat([inside, corners], 1).output(0))
    return [_any(ops.not_equal(inside, whole))]


def _refused(node: Node) -> list[Node]:
    raise RuntimeError(f"{node.get_type_name()} reads beyond its inputs")


_BOUNDS: Mapping[str, Callable[[Node], list[Node]]] = {
    "Gather": _gather,
    "GatherND": _gather_nd,
    "ScatterElementsUpdate": _scatter_elements,
    "Range": _range,
    "VariadicSplit": _variadic_split,
    "CTCGreedyDecoderSeqLen": _lengths,
    "PSROIPooling": _regions,
    "DeformablePSROIPooling": _regions,
    "CTCLoss": _refused,
}
_POSITIONS = {"Range": 2, "VariadicSplit": 2}
"""The input with positions, if it is not the second."""


def _bound(node: Node, at: int, limit: Node, is_from_end: bool = False) -> list[Node]:
    """Bring the positions of an input below ``limit``, and to 0 or, counted from the end, to ``-limit`` at least."""
    ops, positions = _ops(), node.input_value(at)
    kind = positions.get_element_type()
    limit = ops.convert(limit, kind)
    zero = ops.constant(np.array(0), kind)
    least = ops.subtract(zero, limit) if is_from_end and kind.is_signed() else zero
    most = ops.subtract(limit, ops.constant(np.array(1), kind))
    inside = ops.maximum(ops.minimum(positions, most), least)
    node.input(at).replace_source_output(inside.output(0))
    return [_any(ops.not_equal(inside, positions))]


def _sizes(values: Node, dimensions: list[int]) -> Node:
    return _ops().gather(_ops().shape_of(values, "i64"), _numbers(dimensions), _numbers(0))


def _any(values: Node) -> Node:
    flat = _ops().reshape(values, _numbers([-1]), False)
    return _ops().reduce_logical_or(flat, _numbers([0]), False)


def _numbers(value: int | list[int]) -> Node:
    return _ops().constant(np.array(value, np.int64))
