"""Graphs made node by node, with one signature."""

from __future__ import annotations

from typing import Any

from lightbox.model_runtime.engines.openvino.graph_check import refusals
from lightbox.model_runtime.wire.messages import meta_graph_pb2, types_pb2

FLOAT, INT32, INT64, DOUBLE, STRING, BOOL = (
    *(types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_INT64),
    *(types_pb2.DT_DOUBLE, types_pb2.DT_STRING, types_pb2.DT_BOOL),
)


class Model:
    """A graph with one signature, made node by node."""

    def __init__(self, dtype: int = FLOAT, shape: tuple[int, ...] | None = (-1, 4)) -> None:
        self.meta = meta_graph_pb2.MetaGraphDef()
        self.node("x", "Placeholder", dtype=dtype)
        info = self.meta.signature_def["serving_default"].inputs["x"]
        info.name, info.dtype = "x:0", dtype
        info.tensor_shape.unknown_rank = shape is None
        for size in shape or ():
            info.tensor_shape.dim.add(size=size)

    def node(self, name: str, op: str, *inputs: str, **types: int) -> str:
        fill(self.meta.graph_def.node.add(), name, op, inputs, types)
        return name

    def function(self, name: str, nodes: list[tuple[Any, ...]], argument: str, result: str, runs: str = "") -> None:
        function = self.meta.graph_def.library.function.add()
        function.signature.name = name
        function.signature.input_arg.add(name=argument)
        function.signature.output_arg.add(name="y")
        function.ret["y"] = result
        if runs:
            function.control_ret["run"] = runs
        for node_name, op, inputs, types in nodes:
            fill(function.node_def.add(), node_name, op, inputs, types)

    def call(self, function: str, *inputs: str) -> str:
        self.node("call", "StatefulPartitionedCall", *inputs)
        self.meta.graph_def.node[-1].attr["f"].func.name = function
        return "call"

    def refusal(self, output: str, dtype: int = FLOAT) -> str | None:
        info = self.meta.signature_def["serving_default"].outputs["y"]
        info.name, info.dtype = output, dtype
        before = self.meta.SerializeToString(deterministic=True)
        found = refusals(self.meta)
        assert self.meta.SerializeToString(deterministic=True) == before, "reading must not change the graph"
        assert set(found) == {"serving_default"}
        return found["serving_default"]


def fill(node: Any, name: str, op: str, inputs: Any, types: dict[str, int]) -> None:
    node.name, node.op = name, op
    node.input.extend(inputs)
    for key, value in types.items():
        node.attr[key].type = value
    if op == "Const":
        tensor = node.attr["value"].tensor
        tensor.dtype = types["dtype"]
        values = {INT32: tensor.int_val, INT64: tensor.int64_val, DOUBLE: tensor.double_val}
        values.get(types["dtype"], tensor.float_val).append(2)
