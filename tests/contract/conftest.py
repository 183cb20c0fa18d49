"""A server with the recorded models, one for all contract tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.model_server import ModelServer, golden_server


@pytest.fixture(scope="session")
def recorded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """The stand-in with the recorded server's models and flags; tests leave it as they found it."""
    yield from golden_server(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="session")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base path of a model with one convolution, whose kernel aborts on a wrong rank."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    module = tf.Module()

    def serve(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, tf.ones([2, 2, 1, 3]), 1, "SAME"), tf.ones([3])))}

    spec = tf.TensorSpec([None, 4, 4, 1], tf.float32, name="x")
    module.serve = tf.function(serve, input_signature=[spec])
    folder = tmp_path_factory.mktemp("convolution")
    tf.saved_model.save(module, str(folder / "1"), signatures={"serving_default": module.serve})
    return folder
