"""The nodes of a SavedModel's graph and of its functions, read from their serialized form without TensorFlow.

The numbers of fields are those of TensorFlow's meta_graph.proto, graph.proto, function.proto and node_def.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from tfs_wire.protobuf import read_fields, read_varint

_SCALARS_SINCE = 24
"""The producer of a graph from which on a placeholder with an empty shape is a scalar."""


@dataclass(frozen=True)
class Node:
    """A node of a graph or of a function. ``inputs`` are names of nodes; of control inputs, too.

    ``attributes`` are serialized; ``input_0`` and on are the inputs as they are written, with the output's number.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: dict[str, memoryview] = field(compare=False)


@dataclass(frozen=True)
class Function:
    """The names of a function's arguments, its nodes by name, and the names of those that it returns."""

    arguments: tuple[str, ...]
    nodes: dict[str, Node]
    returned: frozenset[str]


class Graph:
    """The graph of one serialized MetaGraphDef. Raises ValueError, here and in each method, where it is damaged."""

    def __init__(self, meta_graph: memoryview) -> None:
        graph = next((value for number, value in fields(meta_graph) if number == 2), memoryview(b""))
        self.nodes = {node.name: node for node in _nodes(graph, 1)}
        libraries = (value for number, value in fields(graph) if number == 2)
        functions = (value for library in libraries for number, value in fields(library) if number == 1)
        self._functions = {_name(signature): function for function in functions for signature in _signature(function)}
        self._read: dict[str, Function] = {}

    def called_by(self, node: Node) -> Function | None:
        """Return the function that a node calls, None where it calls none."""
        called = next(
            (value for number, value in fields(node.attributes.get("f", memoryview(b""))) if number == 10), None
        )
        name = None if called is None else _name(called)
        function = None if name is None else self._functions.get(name)
        if name is None or function is None:
            return None
        if name not in self._read:
            self._read[name] = _function(function)
        return self._read[name]


def operations(meta_graph: memoryview) -> Iterator[str]:
    """Yield the operation of each node of a serialized MetaGraphDef and of its functions, called or not."""
    for number, value in _graph(meta_graph):
        if number == 1:
            yield _operation(value)
        elif number == 2:
            functions = (function for number, function in fields(value) if number == 1)
            yield from (_operation(node) for function in functions for number, node in fields(function) if number == 3)


def _operation(node: memoryview) -> str:
    return next((str(value, "utf-8") for number, value in fields(node) if number == 2), "")


def empty_is_unknown(meta_graph: memoryview) -> bool:
    """Tell whether an empty shape means an unknown one in a serialized MetaGraphDef, as in those of TensorFlow 1.0."""
    versions = (value for number, value in _graph(meta_graph) if number == 4)
    producers = (read_varint(value, 0)[0] for version in versions for number, value in fields(version) if number == 1)
    return next(producers, 0) < _SCALARS_SINCE


def _graph(meta_graph: memoryview) -> Iterator[tuple[int, memoryview]]:
    return (field for number, graph in fields(meta_graph) if number == 2 for field in fields(graph))


@lru_cache(maxsize=1)
def read_graph(meta_graph: memoryview) -> Graph:
    """Return the graph of one serialized MetaGraphDef, as Graph does; the last one is kept until ``forget_graph``."""
    return Graph(meta_graph)


def forget_graph() -> None:
    """Free the graph that ``read_graph`` keeps: a start looks at the same one several times, and no more after it."""
    read_graph.cache_clear()


def _function(function: memoryview) -> Function:
    arguments = [
        _name(value) for signature in _signature(function) for number, value in fields(signature) if number == 2
    ]
    returned = [dict(fields(entry)).get(2, b"") for number, entry in fields(function) if number == 4]
    return Function(
        tuple(arguments),
        {node.name: node for node in _nodes(function, 3)},
        frozenset(base_name(str(value, "utf-8")) for value in returned),
    )


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and value of each field of a message. Raises ValueError where it is damaged."""
    return ((number, value) for number, _, value in read_fields(message))


def base_name(name: str) -> str:
    """Return the node of ``^node``, ``node:0`` and ``node:output:0``."""
    return name.removeprefix("^").partition(":")[0]


def _signature(function: memoryview) -> Iterator[memoryview]:
    return (value for number, value in fields(function) if number == 1)


def _name(message: memoryview) -> str:
    return next((str(value, "utf-8") for number, value in fields(message) if number == 1), "")


def _nodes(message: memoryview, number_of_nodes: int) -> Iterator[Node]:
    return (_node(value) for number, value in fields(message) if number == number_of_nodes)


def _node(message: memoryview) -> Node:
    name = op = ""
    inputs: list[str] = []
    attributes: dict[str, memoryview] = {}
    for number, value in fields(message):
        if number == 1:
            name = str(value, "utf-8")
        elif number == 2:
            op = str(value, "utf-8")
        elif number == 3:
            attributes[f"input_{len(inputs)}"] = value
            inputs.append(base_name(str(value, "utf-8")))
        elif number == 5:
            entry = dict(fields(value))
            attributes[str(entry.get(1, b""), "utf-8")] = entry.get(2, memoryview(b""))
    return Node(name, op, tuple(inputs), attributes)
