"""Write what Keras exports into recipes/.

    PYTHONPATH=tests python tests/exports/make_recipes_of_keras.py

It runs after make_recipes.py, in the same environment. Weights are drawn from a seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

HERE = Path(__file__).parent / "recipes"
SEED, SIDES = 20261129, (32, 48)


def network(sides: tuple[int | None, int | None], *first: Any) -> Any:
    """Return a classifier that begins with some layers."""
    keras.utils.set_random_seed(SEED)
    x = image = keras.Input((*sides, 3), name="image")
    for layer in first:
        x = layer(x)
    for channels in (4, 8):
        x = keras.layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(x)
    last = keras.initializers.RandomNormal(stddev=3.0)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, keras.layers.Dense(4, "softmax", name="scores", kernel_initializer=last)(x))


def of_resizing() -> None:
    """Export a network that resizes and rescales photos itself."""
    resizing = keras.layers.Resizing(*SIDES)
    made = network((None, None), resizing, keras.layers.Rescaling(1 / 255))
    made.export(str(HERE / "keras_resizing" / "1"), verbose=False)


def of_rescaling() -> None:
    """Export a network that only rescales photos, as ONNX."""
    made = network(SIDES, keras.layers.Rescaling(1 / 127.5, offset=-1))
    file = HERE / "keras_rescaling" / "model.onnx"
    file.parent.mkdir(exist_ok=True)
    made.predict(np.zeros((1, *SIDES, 3), np.float32), verbose=0)  # it can be exported once it has been called
    made.export(str(file), format="onnx", verbose=False)


if __name__ == "__main__":
    of_resizing()
    of_rescaling()
