"""The rules of operations that count, and of those that take values from positions."""

from __future__ import annotations

from collections.abc import Sequence

from lightbox.model_runtime.engines.openvino.facts import (
    FLOAT,
    INT32,
    INT64,
    Fact,
    Facts,
    Kind,
    Rule,
    attribute_type,
    kind_of,
    moved,
    need_floats,
    need_kind,
    wrong,
)
from lightbox.model_runtime.engines.openvino.graph import Node


def cut(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Slices: beyond the end TensorFlow raises an error, and OpenVINO returns values."""
    for fact in inputs[1:]:
        need_kind(node, fact, Kind.CONSTANT, "positions")
    return moved(node, inputs[0], inputs)


def gathered(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Gathers, whose positions may be computed: ``guards`` detects positions beyond the end."""
    values, positions, *axis = inputs
    for fact in axis if positions.is_counted else inputs[1:]:
        need_kind(node, fact, Kind.CONSTANT, "positions")
    return moved(node, values, inputs)


def split(node: Node, inputs: Sequence[Fact]) -> Facts:
    """``Split``: the axis comes before the values."""
    return cut(node, [inputs[1], inputs[0]])


def steps(node: Node, inputs: Sequence[Fact]) -> Facts:
    """``Range`` and the like: OpenVINO crashes on a step of 0."""
    for fact in inputs:
        need_kind(node, fact, Kind.CONSTANT, "limits")
    return Fact(inputs[0].dtype, Kind.CONSTANT, has_zero=True)


def shape(node: Node, _: Sequence[Fact]) -> Facts:
    """``Shape`` and the like, which depend on the batch."""
    return Fact(attribute_type(node, "out_type", INT32), Kind.FIXED)


def position(node: Node, inputs: Sequence[Fact]) -> Facts:
    """``ArgMax`` and ``ArgMin``."""
    need_floats(node, inputs[:1])
    return Fact(attribute_type(node, "output_type", INT64), kind_of(inputs), is_counted=True)


def top(node: Node, inputs: Sequence[Fact]) -> Facts:
    """``TopKV2``: the first of equal values, by the replacement in ``guards``."""
    values, count = inputs
    need_floats(node, [values])
    need_kind(node, count, Kind.CONSTANT, "the count")
    return [("values", values), ("indices", Fact(INT32, values.kind, is_counted=True))]


def boxes(*names: str) -> Rule:
    """Return the rule of a non-maximum suppression with these outputs."""

    def rule(node: Node, inputs: Sequence[Fact]) -> Facts:
        need_floats(node, inputs[:2])
        threshold = inputs[3].value if len(inputs) > 3 else None
        if threshold is None or threshold <= 0:
            raise wrong(node, "has no constant threshold above 0")
        positions = Fact(INT32, Kind.FREE, is_counted=True)
        return [(name, Fact(FLOAT, Kind.FREE) if "scores" in name else positions) for name in names]

    return rule
