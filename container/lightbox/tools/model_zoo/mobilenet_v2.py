"""MobileNetV2, Keras's ImageNet classifier: 224x224 RGB, 1000 classes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from lightbox.base.telemetry import say
from lightbox.tools.model_zoo.image_model import ImageModel, Scaling
from lightbox.tools.model_zoo.weights import STALL_SECONDS, fill_seeded, unreachable

SEED = 20180113
SIDE = 224
SCALING: Scaling = "tf"
WEIGHTS_FILE = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.h5"
WEIGHTS_URL = f"https://storage.googleapis.com/tensorflow/keras-applications/mobilenet_v2/{WEIGHTS_FILE}"
# Seeded gains that let differences between images reach the output: with 1.0 every probability is 0.001.
BODY_GAIN, HEAD_GAIN = 1.2, 2.0


def image_model(weights: Literal["imagenet", "none"] = "imagenet") -> ImageModel:
    """Return MobileNetV2 with ImageNet's weights, or with seeded ones when those cannot be downloaded."""
    network, trained = keras_model(weights)
    return ImageModel(
        predict=lambda pixels: {"probabilities": network(pixels, training=False)},
        keep=[variable.value for variable in network.variables],
        height=SIDE,
        width=SIDE,
        scaling=SCALING,
        weights="ImageNet weights" if trained else f"random weights (seed {SEED})",
        random=not trained,
    )


def keras_model(weights: Literal["imagenet", "none"]) -> tuple[Any, bool]:
    """Return the Keras model, float32 [N, 224, 224, 3] in -1..1 to [N, 1000], and whether it is trained."""
    trained = imagenet_model() if weights == "imagenet" else None
    return (trained, True) if trained is not None else (seeded_model(), False)


def seeded_model() -> Any:
    """Return the Keras model with random weights, the same ones each time."""
    import keras

    network = keras.applications.MobileNetV2(weights=None)
    gains = {layer.name: BODY_GAIN for layer in network.layers} | {"predictions": HEAD_GAIN}
    fill_seeded(network, SEED, gains)
    return network


def imagenet_model() -> Any | None:
    """Return the Keras model with ImageNet's weights, or say in one line why not and return None."""
    if not cached_weights().is_file():
        say.progress("mobilenet_v2: downloading the ImageNet weights (14 MB)")
        problem = unreachable(WEIGHTS_URL)
        if problem is not None:
            say.progress(f"mobilenet_v2: the ImageNet weights cannot be downloaded: {problem}")
            return None
    import keras

    try:
        with socket_timeout(STALL_SECONDS):
            return keras.applications.MobileNetV2(weights="imagenet")
    except Exception as error:  # Keras raises a bare Exception for a failed download
        say.progress(f"mobilenet_v2: the ImageNet weights cannot be downloaded: {error}")
        return None


def cached_weights() -> Path:
    """Where Keras keeps the weights once they are downloaded."""
    return Path(os.environ.get("KERAS_HOME", Path.home() / ".keras")) / "models" / WEIGHTS_FILE


@contextmanager
def socket_timeout(seconds: float) -> Iterator[None]:
    """Let a stalled connection fail: Keras's download sets no timeout of its own."""
    import socket

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
