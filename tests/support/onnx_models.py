"""Small ONNX models, made from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 20180113
_OPSET = 17
_STRIDES = (8, 16, 32)


def dense_weights() -> np.ndarray[Any, Any]:
    """Return W of ``write_dense``."""
    return np.random.default_rng(SEED).standard_normal((4, 3)).astype(np.float32)


def write_dense(file: Path) -> None:
    """Write ``y = softmax(x W)``, x float32 [batch, 4], y [batch, 3]."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softmax", ["z"], ["y"], axis=1)]
    write(file, nodes, {"x": ("FLOAT", ["batch", 4])}, {"y": ("FLOAT", ["batch", 3])}, {"w": dense_weights()})


def write(
    file: Path,
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[str, Sequence[int | str] | None]],
    outputs: Mapping[str, tuple[str, Sequence[int | str] | None]],
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
    opset: int = _OPSET,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a model; of each tensor come the dtype's name with ONNX, and its shape or None."""
    graph = helper.make_graph(
        nodes,
        "made",
        [_described(name, *item) for name, item in inputs.items()],
        [_described(name, *item) for name, item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, file)


def _described(name: str, dtype: str, shape: Sequence[int | str] | None) -> Any:
    return helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape)


FLOWERS = 3
_CELLS = 16
"""Parts of the image, each of which a class weighs by itself: the answer tells a crop from the whole."""


def write_flowers(file: Path) -> None:
    """Write a classifier of the form that ``torch.onnx.export`` gives one of torchvision with a softmax.

    image float32 [batch, 3, 224, 224], scores [batch, 3]. The classes are for red, green and blue.
    """
    weights = np.random.default_rng(SEED).normal(0, 0.03, (3, _CELLS, FLOWERS)) + np.eye(3)[:, None] / _CELLS
    nodes = [
        helper.make_node("AveragePool", ["image"], ["means"], kernel_shape=[56, 56], strides=[56, 56]),
        helper.make_node("Flatten", ["means"], ["cells"]),
        helper.make_node("MatMul", ["cells", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["scores"], axis=1),
    ]
    constants = {"weights": weights.reshape(-1, FLOWERS).astype(np.float32)}
    image: list[int | str] = ["batch", 3, 224, 224]
    scores: list[int | str] = ["batch", FLOWERS]
    write(file, nodes, {"image": ("FLOAT", image)}, {"scores": ("FLOAT", scores)}, constants, opset=20)


def write_yolo(file: Path) -> None:
    """Write a detector of the form in which Ultralytics 8.4.190 exports YOLO11n: names, shapes, opset, metadata.

    images float32 [1, 3, 640, 640] of 0 to 1, output0 [1, 4 + 80, 8400]: boxes in pixels, and the scores of classes, at
    strides of 8, 16 and 32 pixels. One convolution takes the place of the network.
    """
    random = np.random.default_rng(SEED)
    nodes = []
    for stride in _STRIDES:
        pooled, shaped = {"kernel_shape": [stride, stride], "strides": [stride, stride]}, f"cells_{stride}"
        nodes += [
            helper.make_node("AveragePool", ["images"], [f"means_{stride}"], **pooled),
            helper.make_node("Conv", [f"means_{stride}", "weights"], [f"found_{stride}"], kernel_shape=[1, 1]),
            helper.make_node("Reshape", [f"found_{stride}", "rows"], [shaped]),
        ]
    nodes += [
        helper.make_node("Concat", [f"cells_{stride}" for stride in _STRIDES], ["cells"], axis=2),
        helper.make_node("Split", ["cells", "parts"], ["sides", "classes"], axis=1),
        helper.make_node("Mul", ["sides", "pixels"], ["boxes"]),
        helper.make_node("Sigmoid", ["classes"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["output0"], axis=1),
    ]
    constants = {
        "weights": random.standard_normal((84, 3, 1, 1)).astype(np.float32),
        "rows": np.array([1, 84, -1]),
        "parts": np.array([4, 80]),
        "pixels": np.float32(640),
    }
    inputs, outputs = {"images": ("FLOAT", [1, 3, 640, 640])}, {"output0": ("FLOAT", [1, 84, 8400])}
    metadata = {
        "stride": "32",
        "task": "detect",
        "head": "Detect",
        "batch": "1",
        "imgsz": "[640, 640]",
        "names": str({number: f"class {number}" for number in range(80)}),
        "args": "{'batch': 1, 'nms': None, 'dynamic': False, 'simplify': True}",
        "channels": "3",
        "end2end": "False",
    }
    write(file, nodes, inputs, outputs, {name: np.asarray(value) for name, value in constants.items()}, 18, metadata)
