"""Facts about the tensors of a graph that are known before a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from lightbox.model_runtime.engines.openvino.graph import Node
from lightbox.model_runtime.wire.dtypes import name_of
from lightbox.model_runtime.wire.messages import types_pb2
from lightbox.model_runtime.wire.tensor_proto import MalformedTensor, decode

FLOAT, INT32, INT64, BOOL, UINT8 = (
    *(types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_INT64),
    *(types_pb2.DT_BOOL, types_pb2.DT_UINT8),
)
RESOURCE = types_pb2.DT_RESOURCE
INTEGERS = frozenset((INT32, INT64))


MOST_FACTORS = 6
"""Caller's values that may be multiplied: inputs are at most 1e6 (``guards.LARGEST``), and floats 3e38."""
LARGEST_INTEGER = 1 << 24
"""Largest exact integers: OpenVINO computes some as float32, and 64 bits as 32."""


class Kind(IntEnum):
    """The origin of a tensor's value; a result has the largest kind of its inputs."""

    CONSTANT = 0
    """A constant of the graph: equal in each call, so the canary covers it."""
    FIXED = 1
    """Variables, and shapes of tensors, which depend on the batch: small integers."""
    FREE = 2
    """The caller's values: anything."""


@dataclass(frozen=True)
class Fact:
    """The facts about one tensor."""

    dtype: int
    kind: Kind
    may_be_nan: bool = False
    """Whether it may be NaN for finite inputs. OpenVINO's Relu, for example, turns NaN into 0."""
    value: float | None = None
    """The value of a scalar constant."""
    has_zero: bool = False
    """Whether it is a constant with a 0."""
    degree: int = 0
    """How many of the caller's values may be multiplied in it."""
    is_counted: bool = False
    """Whether it is a count or a position: made from the caller's values, but small."""

    def __str__(self) -> str:
        return name_of(self.dtype).removeprefix("DT_").lower()


Facts: TypeAlias = Sequence[tuple[str, Fact]] | Fact
"""The outputs of an operation by name, in order; a single fact if all are alike."""

Rule: TypeAlias = Callable[[Node, Sequence[Fact]], Facts]


class Refused(Exception):
    """An operation may give other results than TensorFlow; the text names it and the reason."""


def attribute_type(node: Node, name: str, default: int = 0) -> int:
    """Return a type attribute; files omit those with TensorFlow's default."""
    # Not node.attr[name]: that would add the attribute to the graph.
    return int(node.attr[name].type) if name in node.attr else default


def kind_of(inputs: Sequence[Fact]) -> Kind:
    """Return the kind of a result of these inputs."""
    return max((fact.kind for fact in inputs), default=Kind.CONSTANT)


def wrong(node: Node, why: str) -> Refused:
    """Return the refusal of an operation."""
    return Refused(f"operation {node.op} ({node.name}) {why}")


def may_be_nan(inputs: Sequence[Fact]) -> bool:
    """Return whether one of the inputs may be NaN."""
    return any(fact.may_be_nan for fact in inputs)


def is_small(fact: Fact) -> bool:
    """Return whether integers are small enough for OpenVINO to be exact."""
    return fact.kind <= Kind.FIXED or fact.is_counted


def made_of(inputs: Sequence[Fact], factors: Sequence[Fact] = ()) -> Fact:
    """Return the fact of a float result of ``inputs``; ``factors`` are multiplied with each other.

    A product of many caller's values may overflow, and combine infinities to NaN.
    """
    degree = max([sum(fact.degree for fact in factors), *(fact.degree for fact in inputs)])
    return Fact(FLOAT, kind_of(inputs), may_be_nan(inputs) or degree > MOST_FACTORS, degree=degree)


def need_small(node: Node, inputs: Sequence[Fact]) -> None:
    """Allow float32, and integers that do not depend on the caller's values."""
    for fact in inputs:
        if fact.dtype != FLOAT and not (fact.dtype == INT32 and fact.kind <= Kind.FIXED):
            whose = " of the caller's values" if fact.kind == Kind.FREE else ""
            raise wrong(node, f"computes with {fact}{whose}")


def need_kind(node: Node, fact: Fact, most: Kind, what: str) -> None:
    """Refuse an input of a larger kind; ``what`` names its purpose."""
    if fact.kind > most:
        raise wrong(node, f"takes {what} from {'the caller' if fact.kind == Kind.FREE else 'shapes'}")


def need_floats(node: Node, inputs: Sequence[Fact]) -> None:
    """Allow float32 only."""
    for fact in inputs:
        if fact.dtype != FLOAT:
            raise wrong(node, f"computes with {fact}")


def moved(node: Node, first: Fact, inputs: Sequence[Fact]) -> Fact:
    """Return the fact of values like ``first`` that are moved, with all participating inputs."""
    integers = [fact for fact in inputs if fact.dtype in INTEGERS]
    is_counted = first.dtype in INTEGERS and all(is_small(fact) for fact in integers)
    if first.dtype == INT64 and not is_counted:
        raise wrong(node, "moves int64 of the caller's values")
    value = first.value if len(inputs) == 1 else None
    degree = max(fact.degree for fact in inputs)
    has_zero = any(fact.has_zero for fact in inputs)
    return Fact(first.dtype, kind_of(inputs), may_be_nan(inputs), value, has_zero, degree, is_counted)


def hides_nan(rule: Rule) -> Rule:
    """Refuse values that may be NaN, which the operation handles differently in OpenVINO."""

    def checked(node: Node, inputs: Sequence[Fact]) -> Facts:
        if may_be_nan(inputs):
            raise wrong(node, "may be given NaN")
        return rule(node, inputs)

    return checked


def constant_of(node: Node, dtype: int) -> Fact:
    """Return the fact of a constant; refuse large integers."""
    if "value" not in node.attr:
        return Fact(dtype, Kind.CONSTANT, may_be_nan=dtype == FLOAT, has_zero=True)
    try:
        array = decode(node.attr["value"].tensor)
    except MalformedTensor:
        raise wrong(node, "is damaged") from None
    if dtype in INTEGERS and array.size and np.abs(array.astype(np.float64)).max() >= LARGEST_INTEGER:
        raise wrong(node, f"holds {Fact(dtype, Kind.CONSTANT)} of {LARGEST_INTEGER} or more")
    if dtype != FLOAT:
        return Fact(dtype, Kind.CONSTANT)
    value = float(array.reshape(-1)[0]) if array.size == 1 else None
    return Fact(dtype, Kind.CONSTANT, not np.isfinite(array).all(), value, bool((array == 0).any()))
