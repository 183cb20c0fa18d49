"""Converts a benchmark's network to ONNX with tf2onnx for the other servers: ``networks/NAME.onnx``.

It has the same weights as the network that Lightbox serves; the graph scales pixels of 0..255. The input is uint8
[N, H, W, 3].
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmark import models

OPSET = 18


def convert(name: str) -> Path:
    """Write the network unless it exists, check its output against TensorFlow's, and return the file.

    Raises AssertionError if the outputs differ or the conversion left transposes between the operations.
    """
    path = models.MODELS / "networks" / f"{name}.onnx"
    if path.exists():
        return path
    import onnxruntime
    import tensorflow as tf
    import tf2onnx

    from lightbox.tools.model_zoo import input_forms

    model = models.image_model(name)
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
    return partial.rename(path)
