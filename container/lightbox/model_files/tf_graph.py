"""The graph of a SavedModel and its functions, as messages of ``protos/saved_model.proto``, without TensorFlow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from lightbox.model_runtime.deadline import in_time
from lightbox.model_runtime.wire.protobuf import check_count

MOST_FIELDS = 4_000_000
"""Most fields of a message. EfficientDet D1, whose graph has 3 MB without weights, has 210,000."""
_FEW_BYTES = 2 * MOST_FIELDS
"""A message of this size has no more fields."""
_checked = deque[tuple[str, int, int]](maxlen=100)
"""Kinds, sizes and hashes of messages that were checked: it takes seconds, and a load parses a graph several times."""
_SCALARS_SINCE = 24
"""The graph version since which a placeholder with an empty shape is a scalar."""

MetaGraph: TypeAlias = Any
"""A ``MetaGraphDef``."""
Node: TypeAlias = Any
"""A ``NodeDef``."""
Shape: TypeAlias = tuple[int | None, ...] | None
"""Sizes, None for each open one; None for an unknown rank."""


def parse(message: str, data: bytes | memoryview) -> Any:
    """Return a message of ``protos/saved_model.proto`` by its name.

    Raises ValueError for damaged ``data``, and for more than MOST_FIELDS fields.
    """
    from google.protobuf.message import DecodeError

    kind = _class(message)
    if len(data) > _FEW_BYTES and (asked := (message, len(data), hash(data))) not in _checked:
        check_count(memoryview(data), kind.DESCRIPTOR, MOST_FIELDS)
        _checked.append(asked)
    try:
        return kind.FromString(data)
    except DecodeError:
        raise ValueError(f"protobuf refuses it as a {message}") from None


@cache
def _class(message: str) -> Any:
    from google.protobuf.message_factory import GetMessageClass  # late: most workers read no graph

    return GetMessageClass(_pool().FindMessageTypeByName(f"lightbox.{message}"))


@cache
def _pool() -> Any:
    from lightbox.model_runtime.wire.descriptors import read_pool

    return read_pool(Path(__file__).with_name("saved_model.binpb"))


@dataclass(frozen=True, eq=False)
class Function:
    """The names of a function's arguments, its nodes by name, and the names of those that it returns."""

    arguments: tuple[str, ...]
    nodes: dict[str, Node]
    returned: frozenset[str]


class Graph:
    """The nodes of a graph by name, and the functions that they call."""

    def __init__(self, meta_graph: MetaGraph) -> None:
        definition = meta_graph.graph_def
        self.nodes: dict[str, Node] = {node.name: node for node in in_time(definition.node)}
        self._functions = {function.signature.name: function for function in definition.library.function}
        self._read: dict[str, Function] = {}

    def called_by(self, node: Node) -> Function | None:
        """Return the function that a node calls, None if it calls none."""
        name = node.attr["f"].func.name if "f" in node.attr else ""
        if name in self._functions and name not in self._read:
            self._read[name] = _function(self._functions[name])
        return self._read.get(name)


def _function(definition: Any) -> Function:
    return Function(
        tuple(argument.name for argument in definition.signature.input_arg),
        {node.name: node for node in in_time(definition.node_def)},
        frozenset(map(base_name, definition.ret.values())),
    )


def operations(meta_graph: MetaGraph) -> Iterator[str]:
    """Yield the operation of each node of a graph and of its functions, called or not."""
    definition = meta_graph.graph_def
    yield from (node.op for node in in_time(definition.node))
    yield from (node.op for function in in_time(definition.library.function) for node in function.node_def)


def empty_is_unknown(meta_graph: MetaGraph) -> bool:
    """Return whether an empty shape means an unknown one, as in graphs of TensorFlow 1.0."""
    return bool(meta_graph.graph_def.versions.producer < _SCALARS_SINCE)


def base_name(name: str) -> str:
    """Return the node of ``^node``, ``node:0`` and ``node:output:0``."""
    return name.removeprefix("^").partition(":")[0]


def shape_of(shape: Any) -> Shape:
    """Return a ``TensorShapeProto``'s sizes."""
    return None if shape.unknown_rank else tuple(dim.size if dim.size >= 0 else None for dim in shape.dim)
