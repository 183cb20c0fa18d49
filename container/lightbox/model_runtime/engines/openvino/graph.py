"""The graph of a SavedModel, read from its file without loading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError

from lightbox.model_runtime.access import read_file
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, read_fields
from lightbox.model_runtime.wire.status import invalid, unreadable

FILE = "saved_model.pb"

_META_GRAPHS = 2
_MOST_BYTES = (2 << 30) - 1
"""Protobuf's limit of a message."""

Node: TypeAlias = Any
"""A ``NodeDef``."""


def read_meta_graph(folder: str, tags: Sequence[str]) -> meta_graph_pb2.MetaGraphDef:
    """Return the graph of ``folder/saved_model.pb`` with exactly these tags.

    Raises StatusError INVALID_ARGUMENT if there is none, or the file is unreadable.
    """
    path = Path(folder, FILE)
    try:
        for number, wire_type, value in read_fields(memoryview(read_file(path, _MOST_BYTES))):
            if number == _META_GRAPHS and wire_type == LENGTH_DELIMITED:
                graph = meta_graph_pb2.MetaGraphDef.FromString(bytes(value))
                if set(graph.meta_info_def.tags) == set(tags):
                    return graph
    except (OSError, ValueError, DecodeError) as error:
        raise unreadable(str(path), error) from None
    raise invalid(f"{path} has no graph with the tags {{ {' '.join(tags)} }}")


def public_signatures(graph: meta_graph_pb2.MetaGraphDef) -> dict[str, meta_graph_pb2.SignatureDef]:
    """Return the public signatures; TensorFlow's own begin with two underscores."""
    return {name: value for name, value in graph.signature_def.items() if not name.startswith("__")}


@dataclass(frozen=True)
class Body:
    """The nodes of the graph, or of a function, by name."""

    nodes: Mapping[str, Node]
    arguments: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    """Tensors, with the names of a function's body: "node:output:0"."""
    always: tuple[str, ...] = ()
    """Nodes that always run, whether or not a result needs them."""


class Graph:
    """The bodies of a graph and the functions that it calls."""

    def __init__(self, meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
        definition = meta_graph.graph_def
        self.steps = count()
        """Counts the nodes that are followed."""
        self.main = Body({node.name: node for node in definition.node})
        self._functions = {item.signature.name: item for item in definition.library.function}
        self._bodies: dict[str, Body] = {}

    def function(self, name: str) -> Body | None:
        """Return the body of a function, None if the library does not have it."""
        if name not in self._bodies:
            item = self._functions.get(name)
            if item is None:
                return None
            self._bodies[name] = Body(
                {node.name: node for node in item.node_def},
                tuple(argument.name for argument in item.signature.input_arg),
                tuple(item.ret[output.name] for output in item.signature.output_arg),
                tuple(item.control_ret.values()),
            )
        return self._bodies[name]
