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
_ANCHORS = 8400


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
    """Write a model; each tensor has an ONNX dtype name and a shape or None."""
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


COLORS = 3
_CELLS = 16
"""Parts of the image, each of which a class weighs by itself: the answer tells a crop from the whole."""


def write_classifier(file: Path, numbers: Sequence[int] = range(COLORS), classes: int = COLORS) -> None:
    """Write a classifier like ``torch.onnx.export`` of a torchvision or timm model with a softmax.

    image float32 [batch, 3, 224, 224], scores [batch, classes]. Three class numbers are for red, green and
    blue; the others are unlikely.
    """
    random = np.random.default_rng(SEED).normal(0, 0.03, (3, _CELLS, COLORS)) + np.eye(3)[:, None] / _CELLS
    weights, bias = np.zeros((3 * _CELLS, classes), np.float32), np.full(classes, -20, np.float32)
    weights[:, list(numbers)], bias[list(numbers)] = random.reshape(-1, COLORS), 0
    nodes = [
        helper.make_node("AveragePool", ["image"], ["means"], kernel_shape=[56, 56], strides=[56, 56]),
        helper.make_node("Flatten", ["means"], ["cells"]),
        helper.make_node("Gemm", ["cells", "weights", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["scores"], axis=1),
    ]
    image: list[int | str] = ["batch", 3, 224, 224]
    scores: list[int | str] = ["batch", classes]
    constants = {"weights": weights, "bias": bias}
    write(file, nodes, {"image": ("FLOAT", image)}, {"scores": ("FLOAT", scores)}, constants, opset=20)


def write_patches(file: Path, batch: int | str) -> None:
    """Write a detector whose rows are objects: x float32 [batch, 3, 8, 8] of 0 to 255, found [n, 2].

    It gives row and column of each bright patch of 2 x 2 pixels in the whole batch.
    """
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["grey"], axes=[1], keepdims=1),
        helper.make_node("AveragePool", ["grey"], ["patches"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Greater", ["patches", "least"], ["bright"]),
        helper.make_node("NonZero", ["bright"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("Gather", ["rows", "sides"], ["sides_of_rows"], axis=1),
        helper.make_node("Cast", ["sides_of_rows"], ["found"], to=TensorProto.FLOAT),
    ]
    constants = {"least": np.array(128, np.float32), "sides": np.array([2, 3])}
    write(file, nodes, {"x": ("FLOAT", [batch, 3, 8, 8])}, {"found": ("FLOAT", ["n", 2])}, constants)


YOLO_NAMES = tuple({2: "car", 11: "stop sign"}.get(number, f"class {number}") for number in range(80))
"""Of the 80 classes of YOLO11n those that ``write_yolo`` finds have their names."""
_FOUND = (("red", 11, 0.9), ("blue", 2, 0.6))


def write_yolo(file: Path) -> None:
    """Write a detector like Ultralytics 8.4.190's export of YOLO11n: names, shapes, opset, metadata.

    images float32 [1, 3, 640, 640] of 0 to 1, output0 [1, 4 + 80, 8400]: boxes in pixels, and the scores of classes.
    It finds the red and the blue rectangle of a picture: a stop sign of score 0.9 and a car of 0.6, each again in a
    second box, shifted by some pixels, with half the score.
    """
    side = 640
    constants: dict[str, Any] = {
        "high": np.float32(0.6),
        "low": np.float32(0.3),
        "to_row": np.array([1, 2]),
        "to_column": np.array([1, 3]),
        "along": np.array([1]),
        "last": np.array([2]),
        "side": np.full((1, 1), side, np.float32),
        "up": np.arange(1, side + 1, dtype=np.float32)[None],
        "down": np.arange(side, 0, -1, dtype=np.float32)[None],
        "to_center": np.array([[0.5, 0, -1, 0], [0, 0.5, 0, -1], [0.5, 0, 1, 0], [0, 0.5, 0, 1]], np.float32),
        "shift": np.array([[3, -2, 4, 4]], np.float32),
        "nothing": np.zeros((1, 4 + len(YOLO_NAMES), _ANCHORS - 2 * len(_FOUND)), np.float32),
    }
    nodes = [helper.make_node("Split", ["images"], ["red", "green", "blue"], axis=1, num_outputs=3)]
    anchors = []
    for color, number, score in _FOUND:
        other = "blue" if color == "red" else "red"
        for name, part in (("", 1), ("_again", 0.5)):
            constants[f"{color}{name}_scores"] = score * part * np.eye(len(YOLO_NAMES), dtype=np.float32)[[number]]
            anchors.append(f"{color}{name}_anchor")
        nodes += _rectangle(color, other)
    nodes.append(helper.make_node("Concat", [*anchors, "nothing"], ["output0"], axis=2))
    inputs, outputs = {"images": ("FLOAT", [1, 3, side, side])}, {"output0": ("FLOAT", [1, 84, _ANCHORS])}
    metadata = {
        "stride": "32",
        "task": "detect",
        "head": "Detect",
        "batch": "1",
        "imgsz": "[640, 640]",
        "names": str(dict(enumerate(YOLO_NAMES))),
        "args": "{'batch': 1, 'nms': None, 'dynamic': False, 'simplify': True}",
        "channels": "3",
        "end2end": "False",
    }
    write(file, nodes, inputs, outputs, {name: np.asarray(value) for name, value in constants.items()}, 18, metadata)


def _rectangle(color: str, other: str) -> list[Any]:
    """Return nodes that make two anchors of the pixels in which one color is strong and the other one weak."""

    def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
        names = [name.replace("*", color) for name in inputs.split()]
        return helper.make_node(kind, names, [output.replace("*", color)], **attributes)

    nodes = [
        node("Greater", "* high", "*_strong"),
        node("Less", f"{other} low", "*_weak"),
        node("And", "*_strong *_weak", "*_both"),
        node("Cast", "*_both", "*_mask", to=TensorProto.FLOAT),
    ]
    for line, first, last in (("row", "left", "right"), ("column", "top", "bottom")):
        nodes += [
            node("ReduceMax", f"*_mask to_{line}", f"*_{line}", keepdims=0),
            node("Mul", f"*_{line} up", f"*_{line}_up"),
            node("ReduceMax", f"*_{line}_up along", f"*_{last}", keepdims=1),
            node("Mul", f"*_{line} down", f"*_{line}_down"),
            node("ReduceMax", f"*_{line}_down along", f"*_{line}_from_end", keepdims=1),
            node("Sub", f"side *_{line}_from_end", f"*_{first}"),
        ]
    nodes += [
        node("ReduceMax", "*_row along", "*_there", keepdims=1),
        node("Concat", "*_left *_top *_right *_bottom", "*_corners", axis=1),
        node("MatMul", "*_corners to_center", "*_box"),
        node("Add", "*_box shift", "*_again_box"),
    ]
    for name in ("*", "*_again"):
        nodes += [
            node("Mul", f"*_there {name}_scores", f"{name}_seen"),
            node("Concat", f"{name}_box {name}_seen", f"{name}_flat", axis=1),
            node("Unsqueeze", f"{name}_flat last", f"{name}_anchor"),
        ]
    return nodes
