"""Folds batch normalizations into the convolutions before them: the same function with a third less work.

At inference a batch normalization multiplies and adds constants for each channel, and a convolution can do both itself.
ONNX Runtime and TensorRT fold when they load a network; TensorFlow Serving runs what the SavedModel has.
"""

from typing import Any

import numpy as np


def fold_batch_norms(network: Any) -> Any:
    """Return a Keras model that gives what ``network`` gives, without its batch normalizations.

    Raises ValueError when one follows anything but a convolution.
    """
    import keras

    source, *layers = network.layers
    folded = {source.name: keras.Input(source.batch_shape[1:])}
    after = {inputs_of(layer)[0]: layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)}
    for layer in layers:
        inputs = [folded[name] for name in inputs_of(layer)]
        if isinstance(layer, keras.layers.BatchNormalization):
            if after[inputs_of(layer)[0]] is not layer or not takes_bias(network.get_layer(inputs_of(layer)[0])):
                raise ValueError(f"{layer.name}: a batch normalization can be folded into a convolution only")
            folded[layer.name] = inputs[0]
        elif layer.name in after and takes_bias(layer):
            folded[layer.name] = with_norm(layer, after[layer.name], inputs[0])
        else:
            folded[layer.name] = layer(inputs if len(inputs) > 1 else inputs[0])
    return keras.Model(folded[source.name], folded[layers[-1].name])


def inputs_of(layer: Any) -> list[str]:
    """Return the names of the layers before one, which is used once."""
    (node,) = layer._inbound_nodes
    return [tensor._keras_history.operation.name for tensor in node.input_tensors]


def takes_bias(layer: Any) -> bool:
    """Return whether a layer is a convolution without an activation of its own."""
    import keras

    convolution = isinstance(layer, (keras.layers.Conv2D, keras.layers.DepthwiseConv2D))
    return convolution and layer.activation is keras.activations.linear


def with_norm(layer: Any, norm: Any, inputs: Any) -> Any:
    """Return the output of a convolution that does what its batch normalization did after it."""
    import keras

    made = type(layer).from_config(layer.get_config() | {"use_bias": True})
    outputs = made(inputs)
    gamma, beta, mean, variance = (np.asarray(keras.ops.convert_to_numpy(value)) for value in norm.weights)
    scale = gamma / np.sqrt(variance + norm.epsilon)
    kernel, *bias = layer.get_weights()
    depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
    made.set_weights(
        [kernel * (scale[:, None] if depthwise else scale), beta + ((bias[0] if bias else 0) - mean) * scale]
    )
    return outputs
