"""Makes ONNX files of classifiers, whose graphs scale pixels of 0..255: uint8 [N, 224, 224, 3] to [N, 1000].

``networks/mobilenet_v2.onnx``, which tf2onnx converts, has the same weights as the network that Lightbox serves.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from benchmark import models
from lightbox.tools.model_zoo import efficientnet_lite0
from lightbox.tools.model_zoo.onnx_file import FLOAT, OnnxGraph

NAME, OPSET = "mobilenet_v2", 18
NOTHING = "nothing"
"""The network that computes nothing: its call is the way of its tensors alone."""
SIDE, CLASSES, SEED = 224, 1000, 20180113
_STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
"""Of ResNet-50: blocks, channels within them, and strides of the first one."""


def convert() -> None:
    """Write the network unless it exists, after a check of its output against TensorFlow's.

    Raises AssertionError if the outputs differ or the conversion left transposes between the operations.
    """
    path = models.MODELS / "networks" / f"{NAME}.onnx"
    if path.exists():
        return
    import onnxruntime
    import tensorflow as tf
    import tf2onnx

    from lightbox.tools.model_zoo import input_forms

    model = models.image_model(NAME)
    spec = tf.TensorSpec([None, model.height, model.width, 3], tf.uint8, name="pixels")

    def predict(pixels: Any) -> dict[str, Any]:
        return {"probabilities": model.predict(input_forms.prepare(pixels, model, "uint8"))["probabilities"]}

    function = tf.function(predict, input_signature=[spec], autograph=False)
    network, _ = tf2onnx.convert.from_function(function, input_signature=[spec], opset=OPSET)
    assert [node.op_type for node in network.graph.node].count("Transpose") <= 2
    probe = np.random.default_rng(5).integers(0, 256, (1, model.height, model.width, 3), np.uint8)
    (got,) = onnxruntime.InferenceSession(network.SerializeToString()).run(None, {"pixels": probe})
    np.testing.assert_allclose(got, function(tf.constant(probe))["probabilities"], rtol=1e-3, atol=1e-6)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(network.SerializeToString())
    partial.rename(path)


def classifiers() -> Path:
    """Return the folder of three classifiers and ``NOTHING``, each with version 1, made where they are missing."""
    root = models.MODELS / "costs"
    makers = {NAME: _converted, "resnet50": resnet50, "efficientnet_lite0": _efficientnet, NOTHING: nothing}
    for name, make in makers.items():
        if not (root / name).exists():
            partial = root / f".{name}"
            shutil.rmtree(partial, ignore_errors=True)
            (partial / "1").mkdir(parents=True)
            make(partial / "1")
            partial.rename(root / name)
    return root


def _converted(folder: Path) -> None:
    convert()
    shutil.copy(models.MODELS / "networks" / f"{NAME}.onnx", folder / "model.onnx")


def _efficientnet(folder: Path) -> None:
    efficientnet_lite0.save_onnx("uint8", folder)


def nothing(folder: Path) -> None:
    """Write a network into a folder that only averages the pixels."""
    graph = OnnxGraph("pixels", (SIDE, SIDE, 3), np.dtype(np.uint8))
    means = graph.node("ReduceMean", graph.node("Cast", graph.input, to=FLOAT), axes=[1, 2], keepdims=0)
    weights = graph.constant(np.ones((3, CLASSES), np.float32) / (3 * CLASSES * 255))
    (folder / "model.onnx").write_bytes(graph.file("probabilities", graph.node("MatMul", means, weights), CLASSES, {}))


def resnet50(folder: Path) -> None:
    """Write ResNet-50 v1.5 with seeded random weights into a folder, as MLPerf measures it: a block's strides are those
    of its 3x3 convolution."""
    random = np.random.default_rng(SEED)
    graph = OnnxGraph("pixels", (SIDE, SIDE, 3), np.dtype(np.uint8))

    def kernel(*shape: int) -> Any:
        return (random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    def convolution(values: str, inputs: int, outputs: int, size: int, strides: int = 1) -> str:
        bias = np.zeros(outputs, np.float32)
        return graph.convolution(values, kernel(outputs, inputs, size, size), bias, strides, False, relu6=False)

    def relu(values: str) -> str:
        return graph.node("Relu", values)

    scaled = graph.node("Mul", graph.node("Cast", graph.input, to=FLOAT), graph.constant(np.float32(1 / 255)))
    values = relu(convolution(graph.node("Transpose", scaled, perm=[0, 3, 1, 2]), 3, 64, 7, 2))
    values = graph.node("MaxPool", values, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    channels = 64
    for blocks, width, first in _STAGES:
        for number in range(blocks):
            strides = 1 if number else first
            inner = relu(convolution(relu(convolution(values, channels, width, 1)), width, width, 3, strides))
            shortcut = values if number else convolution(values, channels, 4 * width, 1, strides)
            values = relu(graph.add(convolution(inner, width, 4 * width, 1), shortcut))
            channels = 4 * width
    # Each of the 16 blocks doubles the variance: without the factor one probability is 1.
    scores = graph.classes(values, kernel(CLASSES, channels) * np.float32(2**-8), np.zeros(CLASSES, np.float32))
    (folder / "model.onnx").write_bytes(
        graph.file("probabilities", scores, CLASSES, {"weights": f"random weights (seed {SEED})"})
    )
