"""Writes a Keras network as a list of steps and its weights, so that another framework can run the very same one.

The rivals' environment has no TensorFlow and this one has no ONNX: `networks/<name>.npz` is what passes between
them. It holds `steps`, a JSON list in the order of execution, an array for each weight that a step names, and an
input `probe` with the answer `expected`, by which the other side checks its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark import models

Step = dict[str, Any]


def dump(name: str) -> Path:
    """Write the network unless it is there, and return the file."""
    path = models.MODELS / "networks" / f"{name}.npz"
    if not path.exists():
        network = models.keras_network(name)
        steps, weights = steps_of(network)
        probe = probe_input()
        expected = np.asarray(network(probe, training=False))
        text = np.frombuffer(json.dumps(steps).encode(), np.uint8)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, steps=text, probe=probe, expected=expected, **weights)
    return path


def probe_input() -> npt.NDArray[np.float32]:
    """Return an input that both networks can take, float32 [1, 224, 224, 3] within -1..1."""
    return np.random.default_rng(5).uniform(-1, 1, (1, 224, 224, 3)).astype(np.float32)


def steps_of(network: Any) -> tuple[list[Step], dict[str, Any]]:
    """Return the steps and weights of a functional Keras network with one input and one output."""
    steps: list[Step] = []
    weights: dict[str, Any] = {}
    for operation in network.operations:
        kind = type(operation).__name__
        node = operation._inbound_nodes[0]
        step: Step = {
            "kind": kind,
            "inputs": [tensor.name for tensor in node.input_tensors],
            "output": node.output_tensors[0].name,
            "weights": [f"{operation.name}/{variable.name}" for variable in getattr(operation, "weights", [])],
        }
        step |= _ATTRIBUTES.get(kind, lambda _: {})(operation)
        constants = [value for value in node.arguments.args if isinstance(value, float)]
        if constants:
            step["constant"] = constants[0]
        values = (np.asarray(variable.value) for variable in getattr(operation, "weights", []))
        weights |= dict(zip(step["weights"], values, strict=True))
        steps.append(step)
    return steps, weights


def _activation(operation: Any) -> str:
    return str(operation.activation.__name__)


_ATTRIBUTES: dict[str, Callable[[Any], Step]] = {
    "Conv2D": lambda op: {"strides": op.strides, "padding": op.padding, "bias": op.use_bias},
    "DepthwiseConv2D": lambda op: {"strides": op.strides, "padding": op.padding, "bias": op.use_bias},
    "ZeroPadding2D": lambda op: {"pads": op.padding},
    "BatchNormalization": lambda op: {"epsilon": op.epsilon},
    "ReLU": lambda op: {"most": op.max_value},
    "Activation": lambda op: {"activation": _activation(op)},
    "Dense": lambda op: {"activation": _activation(op), "bias": op.use_bias},
    "MaxPooling2D": lambda op: {"strides": op.strides, "size": op.pool_size, "padding": op.padding},
    "GlobalAveragePooling2D": lambda op: {"keepdims": op.keepdims},
    "Rescaling": lambda op: {"scale": float(op.scale), "offset": float(op.offset)},
}
