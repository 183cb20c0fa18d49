"""Models whose graphs begin with a rescaling, or without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lightbox.model_files.layout import find_models
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.scaling_report import scaling_line
from lightbox.tools.model_zoo.export import quiet_tensorflow

MAKER = "tests/support/scaled_models.py"


def save_all(folder: Path) -> None:
    """Export a model of each kind as ``folder/NAME/1``, with its scaled black and white pixels beside it."""
    quiet_tensorflow()
    import keras
    import numpy as np
    import tensorflow as tf

    layers, applications = keras.layers, keras.applications
    black_and_white = np.stack([np.zeros((8, 8, 3), np.float32), np.full((8, 8, 3), 255, np.float32)])

    class Preprocessing(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function

        def call(self, x: Any) -> Any:
            return self.function(x)

    def export(name: str, *first: Any) -> None:
        entry = x = keras.Input((8, 8, 3))
        for layer in first:
            x = layer(x)
        if first:
            pixels = keras.Model(entry, x).predict(black_and_white, verbose=0)
            limits = [float(pixels.min()), float(pixels.max())]
            (folder / f"{name}.json").write_text(json.dumps(limits))
        x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(x))
        keras.Model(entry, x).export(str(folder / name / "1"), verbose=False)

    folder.mkdir(parents=True, exist_ok=True)
    export("plain")
    export("unit", layers.Rescaling(1 / 255))
    export("tf", layers.Rescaling(1 / 127.5, offset=-1))
    export("torch", Preprocessing(applications.densenet.preprocess_input))
    export("caffe", Preprocessing(applications.resnet50.preprocess_input))
    export("small", layers.Normalization(mean=[0.485, 0.456, 0.406], variance=[0.0524, 0.0502, 0.0506]))
    export("resized", layers.Resizing(6, 6), layers.Rescaling(1 / 255))

    class Net(tf.Module):  # type: ignore[misc]
        def __init__(self, first: Any) -> None:
            self.factor = tf.Variable(0.5)
            self.first = first

        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, name="image")])  # type: ignore[untyped-decorator]
        def __call__(self, image: Any) -> dict[str, Any]:
            return {"y": self.first(self, image)}

    @tf.function  # type: ignore[untyped-decorator]
    def halved(x: Any) -> Any:
        return tf.stop_gradient(x / 127.5)

    def nested(net: Any, image: Any) -> Any:
        return tf.reduce_mean(halved(tf.identity(image)) - 1.0, axis=[1, 2])

    def by_variable(net: Any, image: Any) -> Any:
        return tf.reduce_mean(image * net.factor, axis=[1, 2])

    def fork(net: Any, image: Any) -> Any:
        return tf.reduce_mean(image * 2.0 + tf.abs(image), axis=[1, 2])

    for name, first in {"nested": nested, "variable": by_variable, "fork": fork}.items():
        tf.saved_model.save(Net(first), str(folder / name / "1"))
    (folder / "nested.json").write_text("[-1.0, 1.0]")


def said_of(root: Path, name: str, code: Path | None = None, **environ: str) -> str:
    (model,) = [model for model in find_models(root) if model.name == name]
    return str(scaling_line(model, [code or root / "code"], load_settings(environ)))
