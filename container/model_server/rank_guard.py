"""Keeps inputs of a wrong rank from models on which they would end the process.

TensorFlow's convolution and pooling kernels find the batch, channel and spatial dimensions of their
input with a check that aborts the whole process when the rank is wrong. The real server dies of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from model_server.tensors import Array
from tfs_wire.messages import meta_graph_pb2
from tfs_wire.status import StatusError, invalid

_ABORTING_OPS = ("Conv2D", "Conv3D", "DepthwiseConv2d", "MaxPool", "AvgPool", "FusedBatchNorm", "SpaceToDepth")


class RankGuard:
    """Knows the declared ranks of a model's inputs by tensor name; knows none if no kernel of it aborts."""

    def __init__(self, meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
        self._ranks: dict[str, int] = {}
        if not _has_aborting_op(meta_graph):
            return
        for signature in meta_graph.signature_def.values():
            for info in signature.inputs.values():
                if not info.tensor_shape.unknown_rank:
                    self._ranks[info.name] = len(info.tensor_shape.dim)

    def check(self, feeds: Mapping[str, Array]) -> None:
        """Raise INVALID_ARGUMENT for an input whose rank is not the declared one."""
        for name, array in feeds.items():
            if self._ranks.get(name, array.ndim) != array.ndim:
                raise self._error(name, array)

    def _error(self, name: str, array: Array) -> StatusError:
        shape = ",".join(map(str, array.shape))
        return invalid(f"input must be {self._ranks[name]}-dimensional, but {name} has shape [{shape}]")


def _has_aborting_op(meta_graph: meta_graph_pb2.MetaGraphDef) -> bool:
    graph = meta_graph.graph_def
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return any(node.op.startswith(_ABORTING_OPS) for body in bodies for node in body)
