"""The benchmark's networks for ONNX Runtime, built from the steps that network_dump.py wrote.

The input is float32 [N, H, W, 3] as it comes from the image; one transpose at the head gives the layout that
ONNX's convolutions want. With `resize` the height and width are free and the graph resizes, as the
model-serving study has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, checker, helper, numpy_helper

NETWORKS = Path(__file__).resolve().parents[3] / "build" / "benchmark_models" / "networks"
OPSET = 18
SIDE = 224


def session(name: str, threads: int) -> onnxruntime.InferenceSession:
    """Return a session of a built network with so many threads inside an operation, 0 for its own choice."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(NETWORKS / f"{name}.onnx", options, providers=["CPUExecutionProvider"])


def build_all() -> None:
    """Build what is missing, and check that each answers as Keras does; raise AssertionError if not."""
    for dumped in sorted(NETWORKS.glob("*.npz")):
        name = dumped.stem
        for resize in (False, True):
            path = NETWORKS / f"{name}{'_resize' if resize else ''}.onnx"
            if path.exists() and path.stat().st_mtime > dumped.stat().st_mtime:
                continue
            path.write_bytes(build(name, resize))
            values = np.load(dumped)
            (answer,) = session(path.stem, 0).run(None, {"pixels": values["probe"]})
            np.testing.assert_allclose(answer, values["expected"], rtol=1e-3, atol=1e-6)


def build(name: str, resize: bool = False) -> bytes:
    """Return the network as a serialized ONNX model: `pixels` to `probabilities`."""
    dumped = np.load(NETWORKS / f"{name}.npz")
    graph = _Graph(dumped, resize)
    for step in json.loads(dumped["steps"].tobytes()):
        getattr(graph, f"add_{step['kind'].lower()}")(step)
    graph.node("Identity", [graph.last], "probabilities")
    size: list[Any] = ["height", "width"] if resize else [SIDE, SIDE]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", *size, 3])],
            [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 1000])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=9,
    )
    checker.check_model(model)
    return model.SerializeToString()


class _Graph:
    """Nodes and constants; a method for each kind of step."""

    def __init__(self, weights: Any, resize: bool) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.last = ""
        self._weights = weights
        self._resize = resize

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        self.last = output
        return output

    def constant(self, value: Any, name: str = "") -> str:
        name = name or f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name: str, *axes: int) -> str:
        array = self._weights[name]
        return self.constant(np.ascontiguousarray(array.transpose(axes)) if axes else array, name)

    def add_inputlayer(self, step: dict[str, Any]) -> None:
        if not self._resize:
            self.node("Transpose", ["pixels"], step["output"], perm=[0, 3, 1, 2])
            return
        planes = self.node("Transpose", ["pixels"], "planes", perm=[0, 3, 1, 2])
        sides = self.constant(np.array([SIDE, SIDE], np.int64))
        self.node("Resize", [planes, "", "", sides], step["output"], mode="linear", axes=[2, 3])

    def add_rescaling(self, step: dict[str, Any]) -> None:
        scaled = self.node(
            "Mul", [*step["inputs"], self.constant(np.float32(step["scale"]))], step["output"] + "/scaled"
        )
        self.node("Add", [scaled, self.constant(np.float32(step["offset"]))], step["output"])

    def add_conv2d(self, step: dict[str, Any]) -> None:
        self._convolve(step, self.weight(step["weights"][0], 3, 2, 0, 1), groups=1)

    def add_depthwiseconv2d(self, step: dict[str, Any]) -> None:
        channels = self._weights[step["weights"][0]].shape[2]
        self._convolve(step, self.weight(step["weights"][0], 2, 3, 0, 1), groups=channels)

    def _convolve(self, step: dict[str, Any], kernel: str, groups: int) -> None:
        biases = [self.weight(step["weights"][1])] if step["bias"] else []
        auto_pad = "SAME_UPPER" if step["padding"] == "same" else "VALID"
        self.node(
            "Conv",
            [*step["inputs"], kernel, *biases],
            step["output"],
            group=groups,
            strides=step["strides"],
            auto_pad=auto_pad,
        )

    def add_batchnormalization(self, step: dict[str, Any]) -> None:
        parameters = [self.weight(name) for name in step["weights"]]
        self.node("BatchNormalization", [*step["inputs"], *parameters], step["output"], epsilon=step["epsilon"])

    def add_relu(self, step: dict[str, Any]) -> None:
        if step["most"] is None:
            self.node("Relu", step["inputs"], step["output"])
            return
        bounds = [self.constant(np.float32(0)), self.constant(np.float32(step["most"]))]
        self.node("Clip", [*step["inputs"], *bounds], step["output"])

    def add_activation(self, step: dict[str, Any]) -> None:
        kind = {"hard_silu": "HardSwish", "relu": "Relu", "softmax": "Softmax"}[step["activation"]]
        self.node(kind, step["inputs"], step["output"])

    def add_zeropadding2d(self, step: dict[str, Any]) -> None:
        (top, bottom), (left, right) = step["pads"]
        pads = self.constant(np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
        self.node("Pad", [*step["inputs"], pads], step["output"])

    def add_add(self, step: dict[str, Any]) -> None:
        self._binary("Add", step)

    def add_multiply(self, step: dict[str, Any]) -> None:
        self._binary("Mul", step)

    def _binary(self, kind: str, step: dict[str, Any]) -> None:
        constants = [self.constant(np.float32(step["constant"]))] if "constant" in step else []
        self.node(kind, [*step["inputs"], *constants], step["output"])

    def add_maxpooling2d(self, step: dict[str, Any]) -> None:
        auto_pad = "SAME_UPPER" if step["padding"] == "same" else "VALID"
        self.node(
            "MaxPool",
            step["inputs"],
            step["output"],
            kernel_shape=step["size"],
            strides=step["strides"],
            auto_pad=auto_pad,
        )

    def add_globalaveragepooling2d(self, step: dict[str, Any]) -> None:
        pooled = step["output"] + ("" if step["keepdims"] else "/pooled")
        self.node("GlobalAveragePool", step["inputs"], pooled)
        if not step["keepdims"]:
            self.node("Flatten", [pooled], step["output"])

    def add_flatten(self, step: dict[str, Any]) -> None:
        self.node("Flatten", step["inputs"], step["output"])

    def add_dropout(self, step: dict[str, Any]) -> None:
        self.node("Identity", step["inputs"], step["output"])

    def add_dense(self, step: dict[str, Any]) -> None:
        sums = step["output"] + "/sums"
        self.node("Gemm", [*step["inputs"], *(self.weight(name) for name in step["weights"])], sums)
        self.node({"softmax": "Softmax"}[step["activation"]], [sums], step["output"])


if __name__ == "__main__":
    build_all()
