"""Write what Keras exports, and what its networks answer, into recipes/.

    PYTHONPATH=tests python tests/exports/make_recipes_of_keras.py

It runs after make_recipes.py, in the same environment. Weights are drawn from a seed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pixels.pictures import SIZES, picture, png

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


def of_resizing() -> dict[str, Any]:
    """Export a network that resizes and rescales photos itself; return its scores of whole ones."""
    resizing = keras.layers.Resizing(*SIDES)
    made = network((None, None), resizing, keras.layers.Rescaling(1 / 255))
    made.export(str(HERE / "keras_resizing" / "1"), verbose=False)
    return {name: _scores(made, np.asarray(picture(name))) for name in SIZES}


def of_rescaling() -> dict[str, Any]:
    """Export a network that only rescales photos, as ONNX; return its scores of photos that ``load_img`` resizes."""
    made = network(SIDES, keras.layers.Rescaling(1 / 127.5, offset=-1))
    file = HERE / "keras_rescaling" / "model.onnx"
    file.parent.mkdir(exist_ok=True)
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in SIZES:
            photo = Path(folder, f"{name}.png")
            photo.write_bytes(png(name))
            answers[name] = _scores(made, np.asarray(keras.utils.load_img(photo, target_size=SIDES)))
    made.export(str(file), format="onnx", verbose=False)  # once it has been called
    return answers


def _scores(made: Any, pixels: Any) -> list[float]:
    found: list[float] = made.predict(pixels[None].astype(np.float32), verbose=0)[0].tolist()
    return found


if __name__ == "__main__":
    expected = json.loads((HERE / "expected.json").read_text())
    expected["scores"] = {"keras_resizing": of_resizing(), "keras_rescaling": of_rescaling()}
    expected["versions"]["keras"] = keras.__version__
    (HERE / "expected.json").write_text(json.dumps(expected) + "\n")
