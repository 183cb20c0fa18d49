"""The model of ``onnx_models.write_dense`` as a file of each format, and its expected output."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13

from support.onnx_models import dense_weights, write_dense

FILES = ("model.onnx", "model.xml", "model.tflite")
FILES_OF_TESTS = Path(__file__).parent / "files"
_LITERT = FILES_OF_TESTS / "dense.tflite"
"""Converted by TensorFlow 2.20's TFLiteConverter from a SavedModel that computes the same with the same weights."""


def write_dense_as(file: Path) -> None:
    """Write ``y = softmax(x W)``, x float32 [batch, 4], y [batch, 3], in the format of the file's extension."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".onnx":
        write_dense(file)
    elif file.suffix == ".tflite":
        shutil.copy(_LITERT, file)
    else:
        x = opset13.parameter([-1, 4], np.float32, name="x")
        y = opset13.softmax(opset13.matmul(x, opset13.constant(dense_weights()), False, False), axis=1)
        save_ir(file, y, x)


def write_means(file: Path, height: int, width: int) -> None:
    """Write the mean of each channel of pixels that have their channels first: x float32 [1, 3, height, width]."""
    x = opset13.parameter([1, 3, height, width], np.float32, name="x")
    file.parent.mkdir(parents=True, exist_ok=True)
    save_ir(file, opset13.reduce_mean(x, opset13.constant(np.array([2, 3])), keep_dims=False), x)


def save_ir(file: Path, result: Any, *parameters: Any) -> None:
    """Write a model of OpenVINO's IR with one output, named y, and its weights beside it."""
    model = openvino.Model([result], list(parameters), "made")
    for port, parameter in zip(model.inputs, parameters, strict=True):
        port.set_names({parameter.friendly_name})
    model.output(0).set_names({"y"})
    openvino.save_model(model, file, compress_to_fp16=False)


def dense(rows: Any) -> np.ndarray[Any, Any]:
    """Return the output of that model, float32 [batch, 3]."""
    powers = np.exp(np.asarray(rows, np.float32) @ dense_weights())
    found: np.ndarray[Any, Any] = powers / powers.sum(axis=1, keepdims=True)
    return found
