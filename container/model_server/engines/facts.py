"""What is known of the tensors of a graph before they are computed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from model_server.engines.graph import Node
from tfs_wire.dtypes import name_of
from tfs_wire.messages import types_pb2

FLOAT, INT32, INT64, BOOL, UINT8 = (
    *(types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_INT64),
    *(types_pb2.DT_BOOL, types_pb2.DT_UINT8),
)
RESOURCE = types_pb2.DT_RESOURCE
INTEGERS = frozenset((INT32, INT64))


class Kind(IntEnum):
    """Where the value of a tensor comes from; what several make has the largest kind."""

    FIXED = 0
    """Constants, variables and shapes: integers are small."""
    INDEX = 1
    """An operation counted it: integers are small, and within the dimension that was counted."""
    FREE = 2
    """The caller's values: anything."""


@dataclass(frozen=True)
class Fact:
    """What is known of a tensor before it is computed."""

    dtype: int
    kind: Kind
    may_be_nan: bool = False
    """It may be NaN although the inputs are finite. OpenVINO's Relu, for one, makes that 0."""
    value: float | None = None
    """Of a scalar constant."""

    def __str__(self) -> str:
        return name_of(self.dtype).removeprefix("DT_").lower()


Facts: TypeAlias = Sequence[tuple[str, Fact]] | Fact
"""The outputs of an operation by name, in order; one fact where all are alike."""

Rule: TypeAlias = Callable[[Node, Sequence[Fact]], Facts]


class Refused(Exception):
    """An operation would, or might, answer otherwise; the text says which and why."""


def attribute_type(node: Node, name: str, default: int = 0) -> int:
    """Return a type attribute; files leave out those that have TensorFlow's default."""
    # Not node.attr[name]: that would add the attribute to the graph.
    return int(node.attr[name].type) if name in node.attr else default


def kind_of(inputs: Sequence[Fact]) -> Kind:
    """Return the kind of what is made of these."""
    return max((fact.kind for fact in inputs), default=Kind.FIXED)


def wrong(node: Node, why: str) -> Refused:
    """Return the refusal of an operation."""
    return Refused(f"operation {node.op} ({node.name}) {why}")


def may_be_nan(inputs: Sequence[Fact]) -> bool:
    """Whether one of the inputs may be NaN."""
    return any(fact.may_be_nan for fact in inputs)


def _is_small(fact: Fact, most: Kind) -> bool:
    return fact.dtype in INTEGERS and fact.kind <= most


def need(node: Node, inputs: Sequence[Fact], most: Kind) -> None:
    """Allow float32, and integers that are known to be small up to the kind ``most``."""
    for fact in inputs:
        if fact.dtype != FLOAT and not _is_small(fact, most):
            whose = " of the caller's values" if fact.kind == Kind.FREE else ""
            raise wrong(node, f"computes with {fact}{whose}")


def need_kind(node: Node, fact: Fact, most: Kind, what: str) -> None:
    """Refuse an input of a larger kind; ``what`` says what it is for."""
    if fact.kind > most:
        raise wrong(node, f"takes {what} from the caller's values")


def hides_nan(rule: Rule) -> Rule:
    """Refuse values that may be NaN, which the operation treats otherwise in OpenVINO."""

    def checked(node: Node, inputs: Sequence[Fact]) -> Facts:
        if may_be_nan(inputs):
            raise wrong(node, "may be given NaN")
        return rule(node, inputs)

    return checked


def scalar(node: Node) -> float | None:
    """Return the one value of a float constant, None where there are several."""
    tensor = node.attr["value"].tensor if "value" in node.attr else None
    if tensor is None or any(dim.size != 1 for dim in tensor.tensor_shape.dim):
        return None
    if len(tensor.tensor_content) == struct.calcsize("<f"):
        return float(struct.unpack("<f", tensor.tensor_content)[0])
    return float(tensor.float_val[0]) if len(tensor.float_val) == 1 else None
