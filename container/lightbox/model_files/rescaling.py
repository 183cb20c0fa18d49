"""The rescaling of an image at the beginning of a graph, found without TensorFlow.

From the input on, operations that keep values are skipped, and additions and multiplications by constants are combined:
Keras's Rescaling and Normalization, and its preprocess_input functions, consist of these. A variable's value is in
another file, and is not read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightbox.model_files.tf_graph import Function, Graph, MetaGraph, Node, base_name, parse
from lightbox.model_runtime.formats.onnx import CONSTANT, steps

_MOST_STEPS, _MOST_VISITS, _DEEPEST = 200, 5_000_000, 10
"""Operations on the way of an image, nodes that are looked at, and operations of a constant: some seconds."""
_MOST_VALUES = 16
"""Largest constant with values for channels."""
_Values = tuple[float, ...]

_PASSING = frozenset(
    {
        "Cast",
        "CheckNumerics",
        "EnsureShape",
        "ExpandDims",
        "GatherV2",
        "Identity",
        "IdentityN",
        "MirrorPad",
        "Pack",
        "Pad",
        "PadV2",
        "PlaceholderWithDefault",
        "PreventGradient",
        "Reshape",
        "ResizeArea",
        "ResizeBicubic",
        "ResizeBilinear",
        "ResizeNearestNeighbor",
        "ReverseV2",
        "ScaleAndTranslate",
        "Squeeze",
        "StopGradient",
        "StridedSlice",
        "Transpose",
    }
)
"""Operations that keep the values, or select among them, as a resize does."""
_AS_TENSORFLOW = {CONSTANT: "Const", "Unsqueeze": "ExpandDims", "Resize": "ResizeBilinear", "Slice": "StridedSlice"}
"""TensorFlow's names of ONNX's operations; of others they are the same."""
_IGNORED = frozenset({"Shape", "ShapeN", "Rank", "Size", "NoOp", "Assert"})
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "Add": lambda a, b: a + b,
    "AddV2": lambda a, b: a + b,
    "BiasAdd": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "RealDiv": lambda a, b: a / b,
    "Div": lambda a, b: a / b,
    "DivNoNan": lambda a, b: a / b if b else 0.0,
}
_SUMS = ("Add", "AddV2", "BiasAdd")
_FOLDED: Mapping[str, Callable[[float, float], float]] = {**_ARITHMETIC, "Maximum": max, "Minimum": min}
_FOLDED_ALONE: Mapping[str, Callable[[float], float]] = {
    "Sqrt": math.sqrt,
    "Rsqrt": lambda a: 1 / math.sqrt(a),
    "Square": lambda a: a * a,
    "Neg": lambda a: -a,
    "Reciprocal": lambda a: 1 / a,
}


@dataclass(frozen=True)
class Rescaling:
    """A value x of the input becomes ``x * scale + offset``, for each channel or for all, before ``followed_by``.

    ``followed_by`` is the next operation, "" if none was found. ``unknown`` is an operation in between whose values are
    not in the graph; ``scale`` and ``offset`` do not include it.
    """

    scale: _Values = (1.0,)
    offset: _Values = (0.0,)
    followed_by: str = ""
    unknown: str = ""

    @property
    def changes_nothing(self) -> bool:
        """Whether no known rescaling was found."""
        near = [abs(a - 1) < 1e-6 for a in self.scale] + [abs(b) < 1e-6 for b in self.offset]
        return all(near)

    def limits(self, low: float, high: float) -> tuple[float, float]:
        """Return the smallest and the largest result for values from ``low`` to ``high``."""
        values = [a * x + b for x in (low, high) for a, b in _paired(self.scale, self.offset)]
        return min(values), max(values)


@dataclass(frozen=True)
class _Scope:
    """The graph, or one call of a function; ``arguments`` maps those of the call to names in the caller's scope."""

    nodes: Mapping[str, Node]
    parent: _Scope | None = None
    call: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    returned: frozenset[str] = frozenset()


def onnx_rescaling(path: Path, name: str) -> Rescaling:
    """Return the rescaling of an input of an ONNX file, whose first operations are those of TensorFlow.

    Raises OSError, and ValueError for a damaged file.
    """
    graph = parse("MetaGraphDef", b"")
    for step in steps(path):
        node = graph.graph_def.node.add(name=_named(step.gives), op=_AS_TENSORFLOW.get(step.operation, step.operation))
        if step.operation == CONSTANT:
            node.attr["value"].tensor.float_val.extend(step.values)
        else:
            node.input.extend(map(_named, step.takes))
    return find_rescaling(graph, _named(name))


def _named(tensor: str) -> str:
    """Return a name without what means a number of an output, or a control input, in TensorFlow's."""
    return f"_{tensor.replace(':', '_')}"


def find_rescaling(meta_graph: MetaGraph, tensor: str) -> Rescaling:
    """Return the rescaling of a graph's input ``tensor``. Raises ValueError for constants of different lengths."""
    graph = Graph(meta_graph)
    scope, name = _Scope(graph.nodes), base_name(tensor)
    scale: _Values = (1.0,)
    offset: _Values = (0.0,)
    visits = 0
    for _ in range(_MOST_STEPS):
        if (visits := visits + len(scope.nodes)) > _MOST_VISITS:
            break
        takers = [node for node in scope.nodes.values() if node.op not in _IGNORED and name in _sources(node)]
        if not takers:
            if scope.parent is None or name not in scope.returned:
                break
            scope, name = scope.parent, scope.call
            continue
        node = takers[0]
        if len(takers) > 1 and not all(taker.op == "StridedSlice" for taker in takers):
            return _at_a_fork(takers, scale, offset)
        function = graph.called_by(node)
        if function is not None:
            scope, name = _into(scope, node, function, name)
        elif node.op in _PASSING:
            name = node.name
        elif node.op in _ARITHMETIC:
            step = _step(scope, node, name)
            if step is None:
                return Rescaling(scale, offset, node.op, unknown=node.op)
            scale = _both(scale, step[0], _ARITHMETIC["Mul"])
            offset = _both(_both(offset, step[0], _ARITHMETIC["Mul"]), step[1], _ARITHMETIC["Add"])
            name = node.name
        else:
            return Rescaling(scale, offset, node.op)
    return Rescaling(scale, offset)


def _at_a_fork(takers: list[Node], scale: _Values, offset: _Values) -> Rescaling:
    ops = " and ".join(sorted({taker.op for taker in takers}))
    is_known = all(
        taker.op not in _ARITHMETIC and taker.op not in _PASSING and "Call" not in taker.op for taker in takers
    )
    return Rescaling(scale, offset, ops, unknown="" if is_known else ops)


def _sources(node: Node) -> list[str]:
    """Return a node's data inputs; control inputs come after them."""
    return [base_name(tensor) for tensor in node.input if not tensor.startswith("^")]


def _into(scope: _Scope, call: Node, function: Function, name: str) -> tuple[_Scope, str]:
    """Return the scope of a call, and the name in it of the caller's ``name``."""
    given = dict(zip(function.arguments, _sources(call), strict=False))
    inside = _Scope(function.nodes, scope, call.name, given, function.returned)
    return inside, next((argument for argument, source in given.items() if source == name), "")


def _step(scope: _Scope, node: Node, name: str) -> tuple[_Values, _Values] | None:
    """Return factor and summand of an operation on an image and a constant, None if unknown."""
    sources = _sources(node)
    if len(sources) < 2 or sources[0] == sources[1]:
        return None
    first = sources[0] == name
    other = _constant(scope, sources[1 if first else 0])
    if other is None:
        return None
    if node.op == "Mul":
        return other, (0.0,)
    if node.op in _SUMS:
        return (1.0,), other
    if node.op == "Sub":
        return ((1.0,), tuple(-value for value in other)) if first else ((-1.0,), other)
    return (tuple(1 / value for value in other), (0.0,)) if first and all(other) else None


def _constant(scope: _Scope | None, name: str, depth: int = 0) -> _Values | None:
    """Return the values of an expression of constants, None for others and for many values."""
    while scope is not None and name in scope.arguments and name not in scope.nodes:
        name, scope = scope.arguments[name], scope.parent
    node = scope.nodes.get(name) if scope is not None else None
    if node is None or depth > _DEEPEST:
        return None
    if node.op == "Const":
        return _values(node.attr["value"].tensor)
    values = [_constant(scope, source, depth + 1) for source in _sources(node)[:2]]
    try:
        match values:
            case [tuple() as only, *_] if node.op in ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims"):
                return only
            case [tuple() as only] if node.op in _FOLDED_ALONE:
                return tuple(map(_FOLDED_ALONE[node.op], only))
            case [tuple() as one, tuple() as other] if node.op in _FOLDED:
                return _both(one, other, _FOLDED[node.op])
    except (ValueError, ZeroDivisionError):
        pass
    return None


def _both(one: _Values, other: _Values, operation: Callable[[float, float], float]) -> _Values:
    """Apply an operation to pairs of values; a single value pairs with all. Raises ValueError for other lengths."""
    return tuple(operation(a, b) for a, b in _paired(one, other))


def _paired(one: _Values, other: _Values) -> list[tuple[float, float]]:
    length = max(len(one), len(other))
    one, other = (values * length if len(values) == 1 else values for values in (one, other))
    return list(zip(one, other, strict=True))


_FORMATS = {1: "f", 2: "d", 3: "i", 4: "B", 6: "b", 9: "q", 19: "e"}
"""Formats of struct for DT_FLOAT, DT_DOUBLE, DT_INT32, DT_UINT8, DT_INT8, DT_INT64 and DT_HALF."""


def _values(tensor: Any) -> _Values | None:
    """Return the elements of a constant, None for too many elements or for strings."""
    listed: Sequence[float] = tensor.float_val or tensor.double_val or tensor.int_val or tensor.int64_val
    if tensor.tensor_content and tensor.dtype in _FORMATS:
        content, letter = tensor.tensor_content, _FORMATS[tensor.dtype]
        count, rest = divmod(len(content), struct.calcsize(letter))
        listed = struct.unpack(f"<{count}{letter}", content) if not rest and count <= _MOST_VALUES else ()
    found = tuple(map(float, listed)) if len(listed) <= _MOST_VALUES else ()
    return found if found and all(map(math.isfinite, found)) else None
