"""A small convolutional net for scikit-learn's handwritten digits, trained here in seconds.

The split is fixed: of 1797 images, `split()` holds out 360, stratified, with a fixed seed; they are never
trained on. The net is trained on exactly what a digit posted as PNG (8x8, mode L) becomes on its way into the
model: uint8 0..255, three equal channels, divided by 255.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightbox.base.telemetry import say
from lightbox.tools.model_zoo.image_model import ImageModel, Scaling

SEED = 1797
SIDE = 8
SCALING: Scaling = "unit"
HELD_OUT = 360
EPOCHS = 24


@dataclass(frozen=True)
class Split:
    """Images as uint8 [N, 8, 8], grey values 0..255 as a PNG holds them; labels 0..9 as int64 [N]."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    held_out_images: NDArray[np.uint8]
    held_out_labels: NDArray[np.int64]


def split() -> Split:
    """Return the fixed split: 1437 images to train on and 360 held out."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    train_images, held_out_images, train_labels, held_out_labels = train_test_split(
        as_pixels(digits.images), digits.target, test_size=HELD_OUT, stratify=digits.target, random_state=SEED
    )
    return Split(train_images, train_labels, held_out_images, held_out_labels)


def as_pixels(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Turn scikit-learn's grey values 0..16 into 0..255, rounded."""
    return np.rint(images * 255 / 16).astype(np.uint8)


def as_tensor(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn uint8 [N, 8, 8] into the net's input: float32 [N, 8, 8, 3] in 0..1."""
    return np.repeat(pixels[..., None], 3, axis=-1).astype(np.float32) / np.float32(255)


def image_model(network: Any) -> ImageModel:
    """Return the trained net as a model to export."""
    return ImageModel(
        predict=lambda pixels: {"probabilities": network(pixels, training=False)},
        keep=[variable.value for variable in network.variables],
        height=SIDE,
        width=SIDE,
        scaling=SCALING,
        weights="weights trained on scikit-learn's digits",
    )


def trained_model() -> Any:
    """Train on the training half of the split and return the Keras model, [N, 8, 8, 3] to [N, 10]."""
    import keras

    data = split()
    say.progress(f"digits: training on {len(data.train_images)} images, {EPOCHS} epochs")
    keras.utils.set_random_seed(SEED)
    network = untrained_model()
    steps = EPOCHS * -(-len(data.train_images) // 32)
    rate = keras.optimizers.schedules.CosineDecay(2e-3, steps)
    network.compile(optimizer=keras.optimizers.Adam(rate), loss="sparse_categorical_crossentropy")
    network.fit(as_tensor(data.train_images), data.train_labels, batch_size=32, epochs=EPOCHS, verbose=0)
    say.progress(f"digits: {accuracy(network, data):.2%} of {HELD_OUT} held-out images are labelled right")
    return network


def untrained_model() -> Any:
    """Return the net: three convolutions, one pooling, one dense layer with softmax."""
    import keras
    from keras import layers

    def convolution(filters: int) -> Any:
        return layers.Conv2D(filters, 3, padding="same", activation="relu")

    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            convolution(32),
            convolution(32),
            layers.MaxPooling2D(),
            convolution(64),
            layers.Flatten(),
            layers.Dropout(0.4),
            layers.Dense(10, activation="softmax"),
        ]
    )


def accuracy(network: Any, data: Split) -> float:
    """Return the fraction of held-out images that the net labels right."""
    labels = np.asarray(network(as_tensor(data.held_out_images), training=False)).argmax(axis=1)
    return float(np.mean(labels == data.held_out_labels))
