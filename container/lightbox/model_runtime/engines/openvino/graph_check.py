"""The static check: which signatures OpenVINO may run, decided from the graph alone.

OpenVINO crashes on some graphs and silently gives wrong results on others. Each signature is followed from its outputs
back to its inputs, through the functions that it calls, and refused at the first operation that ``operations.RULES``
does not allow for its input values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence

from lightbox.model_runtime.engines.openvino.facts import BOOL, FLOAT, INT32, UINT8, Fact, Facts, Kind, Refused
from lightbox.model_runtime.engines.openvino.graph import Body, Graph, Node, public_signatures
from lightbox.model_runtime.engines.openvino.ops import RULES
from lightbox.model_runtime.wire.dtypes import name_of
from lightbox.model_runtime.wire.messages import meta_graph_pb2

INPUT_TYPES = (FLOAT, UINT8, INT32, BOOL)

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_ASSIGNMENTS = re.compile(
    r"(Resource)?(Assign|Apply).*|Resource(Strided)?(Scatter|Slice).*|Scatter(Nd)?(Add|Sub|Mul|Div|Update|Min|Max)"
)
_CUTS = frozenset(("Slice", "StridedSlice", "Split", "SplitV", "Unpack", "Gather", "GatherV2", "GatherNd"))
"""Operations that may fail for some sizes of an image."""
_INITIAL = ("saved_model_main_op", "legacy_init_op")
"""Collections of nodes that run when a model is loaded."""
_DEEPEST = 64
_FRAMES = 200_000
_MOST_STEPS = 1_000_000
"""Nodes that are followed: a function that calls another one twice, which does the same, doubles them."""


def refusals(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, str | None]:
    """Return for each public signature why OpenVINO may not run it, None if it may."""
    graph = Graph(meta_graph)
    signatures = public_signatures(meta_graph)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        result = {name: _refusal(graph, signature) for name, signature in signatures.items()}
        changes = {name: [o.name for o in item.outputs.values()] for name, item in meta_graph.signature_def.items()}
        changes |= {
            name: list(meta_graph.collection_def[name].node_list.value)
            for name in _INITIAL
            if name in meta_graph.collection_def
        }
        if changed := next((name for name, outputs in changes.items() if _assigns(graph, outputs)), None):
            reason = f"{changed!r} changes variables, which this signature may read"
            result = {name: why or reason for name, why in result.items()}
    finally:
        sys.setrecursionlimit(limit)
    return result


def _refusal(graph: Graph, signature: meta_graph_pb2.SignatureDef) -> str | None:
    try:
        walk = _Walk(graph, graph.main, _feeds(signature), 0, _CUTS if _has_open_sides(signature) else ())
        for name, info in signature.outputs.items():
            if info.WhichOneof("encoding") != "name":
                return f"output {name!r} is not a plain tensor"
            if name in signature.inputs and signature.inputs[name].name != info.name:
                return f"output {name!r} is named like an input"
            fact = walk.fact(info.name)
            if fact.dtype != info.dtype:
                return f"output {name!r} is declared {_word(info.dtype)} but computed as {fact}"
    except Refused as refused:
        return str(refused)
    except RecursionError:
        return "its graph is too deep to be followed"
    return None


def _feeds(signature: meta_graph_pb2.SignatureDef) -> dict[str, Fact]:
    """Return the facts of the inputs by tensor name; raise Refused for inputs that OpenVINO cannot take."""
    if not signature.inputs:
        raise Refused("it has no inputs")
    if signature.defaults:
        raise Refused("it has default inputs")
    for name, info in signature.inputs.items():
        if info.WhichOneof("encoding") != "name":
            raise Refused(f"input {name!r} is not a plain tensor")
        if info.dtype not in INPUT_TYPES:
            raise Refused(f"input {name!r} is {_word(info.dtype)}")
        if info.tensor_shape.unknown_rank:
            raise Refused(f"input {name!r} has no known rank")
        if _is_open_otherwise([dim.size for dim in info.tensor_shape.dim]):
            raise Refused(f"input {name!r} is open in more than its batch and an image's sides")
    return {
        info.name: Fact(info.dtype, Kind.FREE, degree=int(info.dtype == FLOAT)) for info in signature.inputs.values()
    }


def _is_open_otherwise(sizes: Sequence[int]) -> bool:
    """Return whether dimensions other than the first, and an image's height and width, are open."""
    closed = sizes[3:] if len(sizes) == 4 else sizes[1:]
    return any(size < 0 for size in closed)


def _has_open_sides(signature: meta_graph_pb2.SignatureDef) -> bool:
    return any(dim.size < 0 for info in signature.inputs.values() for dim in info.tensor_shape.dim[1:])


def _word(dtype: int) -> str:
    return name_of(dtype).removeprefix("DT_").lower()


class _Walk:
    """Follows tensors back within one body."""

    def __init__(
        self, graph: Graph, body: Body, known: Mapping[str, Fact], depth: int, refused: Collection[str] = ()
    ) -> None:
        self._graph = graph
        self._body = body
        self._known = known
        self._depth = depth
        self._refused = refused
        self._done: dict[str, Facts] = {}
        self._begun: set[str] = set()

    def fact(self, tensor: str) -> Fact:
        """Return the fact of a tensor: "node", "node:1" or, in a function, "node:output:0"."""
        plain = tensor.removesuffix(":0") if tensor.count(":") == 1 else tensor
        for name in (tensor, plain, f"{plain}:0"):
            if name in self._known:
                return self._known[name]
        node, _, place = plain.partition(":")
        facts = self.node(node)
        if isinstance(facts, Fact):
            return facts
        output, _, index = place.rpartition(":")
        of_name = [fact for name, fact in facts if not output or name == output]
        return of_name[int(index or 0)]

    def node(self, name: str) -> Facts:
        """Return the facts of a node's outputs; raise Refused if it, or an input of it, is not allowed."""
        if name not in self._done:
            node = self._body.nodes.get(name)
            if node is None:
                raise Refused(f"operation {name} is not in the graph")
            if name in self._begun:
                raise Refused(f"operation {node.op} ({name}) is part of a loop")
            if next(self._graph.steps) > _MOST_STEPS:
                raise Refused("its functions call too many others to be followed")
            self._begun.add(name)
            inputs = []
            for source in node.input:
                if source.startswith("^"):
                    self._run(source[1:])
                else:
                    inputs.append(self.fact(source))
            self._done[name] = self._outputs(node, inputs)
        return self._done[name]

    def _run(self, name: str) -> None:
        """Follow a node that runs for its effect; arguments have none."""
        if name not in self._known and f"{name}:0" not in self._known:
            self.node(name)

    def _outputs(self, node: Node, inputs: Sequence[Fact]) -> Facts:
        if node.op in _CALLS:
            return self._call(node, inputs)
        if node.op in self._refused and any(fact.kind == Kind.FREE for fact in inputs):
            raise Refused(f"operation {node.op} ({node.name}) takes from what has open sides")
        rule = RULES.get(node.op)
        if rule is None:
            raise Refused(f"operation {node.op} ({node.name}) is not known to give equal results")
        try:
            return rule(node, inputs)
        except (ValueError, IndexError):
            raise Refused(f"operation {node.op} ({node.name}) has {len(inputs)} inputs") from None

    def _call(self, node: Node, inputs: Sequence[Fact]) -> Facts:
        name = node.attr["f"].func.name if "f" in node.attr else ""
        body = self._graph.function(name)
        if body is None or self._depth >= _DEEPEST or len(inputs) != len(body.arguments):
            raise Refused(f"operation {node.op} ({node.name}) calls {name!r}, which cannot be followed")
        known = dict(zip(body.arguments, inputs, strict=True))
        walk = _Walk(self._graph, body, known, self._depth + 1, self._refused)
        for always in body.always:
            walk._run(always)
        return [("output", walk.fact(result)) for result in body.returns]


def _assigns(graph: Graph, outputs: Sequence[str]) -> bool:
    """Return whether outputs depend on an assignment to a variable, through any function."""
    names = [(graph.main, name.partition(":")[0]) for name in outputs]
    seen = set()
    while names:
        body, name = names.pop()
        node = body.nodes.get(name)
        if node is None or (id(body), name) in seen:
            continue
        seen.add((id(body), name))
        if _ASSIGNMENTS.fullmatch(node.op):
            return True
        names += [(body, source.lstrip("^").partition(":")[0]) for source in node.input]
        for function in _functions(node):
            inner = graph.function(function)
            if inner is not None:
                names += [(inner, result.partition(":")[0]) for result in (*inner.returns, *inner.always)]
    return False


def _functions(node: Node) -> list[str]:
    one = [value.func.name for value in node.attr.values() if value.WhichOneof("value") == "func"]
    many = [item.name for value in node.attr.values() for item in value.list.func]
    return one + many
