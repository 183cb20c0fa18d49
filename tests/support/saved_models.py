"""SavedModels of a few nodes, with the shapes that exporters record."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.protobuf import varint

Shape = tuple[int, ...] | None
Layer = tuple[str, Shape, Shape]
"""An operation, the shape of its output and that of its weights; -1 for an open size, None where none is written."""


def add_layers(nodes: Any, layers: Iterable[Layer]) -> None:
    """Add each layer and its weights to a graph's or a function's nodes."""
    for number, (op, shape, weights) in enumerate(layers):
        _add(nodes, f"weights_{number}", "ReadVariableOp", weights)
        _add(nodes, f"layer_{number}", op, shape).input.extend(["x", f"weights_{number}:value:0"])


def call(nodes: Any, function: str) -> None:
    """Add a node that calls a function of the library."""
    _add(nodes, f"call_{function}", "StatefulPartitionedCall", None).attr["f"].func.name = function


def network(*layers: Layer) -> Any:
    """Return a graph as TensorFlow 2 exports it: one function for the signature, and another within it."""
    meta = meta_graph_pb2.MetaGraphDef()
    meta.meta_info_def.tags.append("serve")
    outer, inner = meta.graph_def.library.function.add(), meta.graph_def.library.function.add()
    outer.signature.name, inner.signature.name = "outer", "inner"
    call(meta.graph_def.node, "outer")
    call(outer.node_def, "inner")
    add_layers(inner.node_def, layers)
    return meta


def write(folder: Path, meta: Any) -> Path:
    """Write ``folder/saved_model.pb`` with the one graph and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    data = meta.SerializeToString()
    (folder / "saved_model.pb").write_bytes(bytes([2 << 3 | 2]) + varint(len(data)) + data)
    return folder


def _add(nodes: Any, name: str, op: str, shape: Shape) -> Any:
    node = nodes.add(name=name, op=op)
    if shape is not None:
        listed = node.attr["_output_shapes"].list.shape.add()
        for size in shape:
            listed.dim.add(size=size)
    return node
