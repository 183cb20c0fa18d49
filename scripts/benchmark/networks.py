"""Converts the benchmark's networks to ONNX with tf2onnx for the other servers: ``networks/NAME.onnx``.

They have the same weights as the networks that Lightbox serves; the graph scales pixels of 0..255. The input is
uint8 [N, H, W, 3]. ``NAME_resize.onnx`` takes float32 [N, any, any, 3] and resizes in the graph, as in the
model-serving study.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmark import models

OPSET = 18


def convert(name: str, resize: bool = False) -> Path:
    """Write the network unless it exists, check its output against TensorFlow's, and return the file.

    Raises AssertionError if the outputs differ or the conversion left transposes between the operations.
    """
    path = models.MODELS / "networks" / f"{name}{'_resize' if resize else ''}.onnx"
    if path.exists():
        return path
    import onnxruntime
    import tensorflow as tf
    import tf2onnx

    from lightbox.tools.model_zoo import input_forms

    model = models.image_model(name)
    sides = (None, None) if resize else (model.height, model.width)
    spec = tf.TensorSpec([None, *sides, 3], tf.float32 if resize else tf.uint8, name="pixels")

    def answer(pixels: Any) -> dict[str, Any]:
        if resize:
            pixels = tf.image.resize(pixels, (model.height, model.width))
        return {"probabilities": model.predict(input_forms.prepare(pixels, model, "uint8"))["probabilities"]}

    function = tf.function(answer, input_signature=[spec], autograph=False)
    _let_scalars_pass()
    network, _ = tf2onnx.convert.from_function(function, input_signature=[spec], opset=OPSET)
    assert [node.op_type for node in network.graph.node].count("Transpose") <= 2
    probe = np.random.default_rng(5).integers(0, 256, (1, *(side or 300 for side in sides), 3))
    probe = probe.astype(np.float32 if resize else np.uint8)
    (got,) = onnxruntime.InferenceSession(network.SerializeToString()).run(None, {"pixels": probe})
    np.testing.assert_allclose(got, function(tf.constant(probe))["probabilities"], rtol=1e-3, atol=1e-6)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(network.SerializeToString())
    return partial.rename(path)


def _let_scalars_pass() -> None:
    """Patch tf2onnx 1.17 to move transposes past the addition of a scalar, where it raises ValueError."""
    from tf2onnx import optimizer
    from tf2onnx.optimizer import transpose_optimizer

    class Transposes(transpose_optimizer.TransposeOptimizer):  # type: ignore[misc]
        def _add_handler(self, transpose: Any, node: Any) -> Any:
            added = node.inputs[1]
            if added.is_const() and not added.get_tensor_value(as_list=False).ndim:
                return self._handle_node_having_branches(transpose, node)
            return super()._add_handler(transpose, node)

    optimizer._optimizers["optimize_transpose"] = Transposes
