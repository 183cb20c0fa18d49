"""The amount of computation of a call of a SavedModel, read from its graph without TensorFlow.

Convolutions and matrix products count: they take most of a network's time, and TensorFlow divides them among threads.
"""

from __future__ import annotations

import math
from pathlib import Path

from lightbox.model_files.saved_model import FILE, serving_graph
from lightbox.model_files.tf_graph import Function, Graph, Node, base_name, shape_of

_COUNTED = frozenset({"Conv2D", "DepthwiseConv2dNative", "MatMul"})
_UNCOUNTED = frozenset(
    {
        *("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv1D", "Conv2DBackpropInput", "Conv3D", "Einsum"),
        *("Case", "Enter", "If", "StatelessCase", "StatelessIf", "StatelessWhile", "While"),
        *("SparseTensorDenseMatMul", "TPUPartitionedCall", "XlaCallModule", "XlaLaunch", "_FusedConv2D"),
    }
)
"""Operations that may take long, or run others any number of times."""


_DEEPEST = 50
"""Functions in functions that are looked at."""


class _Unknown(ValueError):
    """The graph does not show the amount of computation."""


def multiplications(folder: Path) -> int | None:
    """Return the multiplications of a call with one row, for the signature with the most.

    None if unknown: images have open sides, there are loops or operations that are not counted, or nothing is counted.
    Raises ModelFileError for an unreadable file.
    """
    graph = Graph(serving_graph(folder / FILE))
    try:
        work = _Work(graph)
        called = [work.of_call(node) for node in graph.nodes.values()]
        # A graph of TensorFlow 2 calls a function for each signature; one of TensorFlow 1 holds the operations.
        return max(work.of_nodes(graph.nodes, calls=False), *called, 0) or None
    except _Unknown:
        return None


class _Work:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._above: list[Function] = []
        self._known: dict[Function, int] = {}

    def of_nodes(self, nodes: dict[str, Node], calls: bool = True) -> int:
        return sum(self._of_node(node, nodes) + (self.of_call(node) if calls else 0) for node in nodes.values())

    def of_call(self, node: Node) -> int:
        function = self._graph.called_by(node)
        if function is None:
            return 0
        if function in self._above or len(self._above) > _DEEPEST:
            raise _Unknown
        if function not in self._known:
            self._above.append(function)
            self._known[function] = self.of_nodes(function.nodes)
            self._above.pop()
        return self._known[function]

    def _of_node(self, node: Node, nodes: dict[str, Node]) -> int:
        if node.op in _UNCOUNTED:
            raise _Unknown
        if node.op not in _COUNTED:
            return 0
        weights = nodes.get(base_name(node.input[1])) if len(node.input) > 1 else None
        if weights is None or ("data_format" in node.attr and node.attr["data_format"].s == b"NCHW"):
            raise _Unknown
        # Each value of a filter is used once for each position of the output.
        *places, _ = _output_shape(node)
        return math.prod(places) * math.prod(_output_shape(weights))


def _output_shape(node: Node) -> tuple[int, ...]:
    """Return the shape of the first output, for one row."""
    listed = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
    shape = shape_of(listed[0]) if listed else None
    if not shape:
        raise _Unknown
    rows, *others = shape
    sizes = (1 if rows is None else rows, *(size for size in others if size is not None))
    if len(sizes) != len(shape):
        raise _Unknown
    return sizes
