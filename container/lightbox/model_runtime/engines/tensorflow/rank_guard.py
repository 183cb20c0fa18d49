"""Refuses inputs of too low a rank that would crash the process, as they crash tensorflow_model_server."""

from __future__ import annotations

from collections.abc import Mapping

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.wire.messages import meta_graph_pb2, types_pb2
from lightbox.model_runtime.wire.ranks import least_rank
from lightbox.model_runtime.wire.status import invalid


class RankGuard:
    """The least ranks of a model's inputs by tensor name; empty for models without crashing kernels.

    They are the declared ones; numbers without a declared rank need the rank of those kernels.
    """

    def __init__(self, meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
        self._ranks: dict[str, int] = {}
        if not (least := _least_rank(meta_graph)):
            return
        for signature in meta_graph.signature_def.values():
            for info in signature.inputs.values():
                is_open = info.tensor_shape.unknown_rank and info.dtype != types_pb2.DT_STRING
                self._ranks[info.name] = least if is_open else len(info.tensor_shape.dim)

    def check(self, feeds: Mapping[str, Array]) -> None:
        """Raise INVALID_ARGUMENT for an input of too low a rank."""
        for name, array in feeds.items():
            if array.ndim < (rank := self._ranks.get(name, 0)):
                shape = ",".join(map(str, array.shape))
                raise invalid(f"input must be {rank}-dimensional, but {name} has shape [{shape}]")


def _least_rank(meta_graph: meta_graph_pb2.MetaGraphDef) -> int:
    graph = meta_graph.graph_def
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return max((least_rank(node.op) for body in bodies for node in body), default=0)
