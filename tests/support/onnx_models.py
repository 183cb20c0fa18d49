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
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8), file)


def _described(name: str, dtype: str, shape: Sequence[int | str] | None) -> Any:
    return helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape)
