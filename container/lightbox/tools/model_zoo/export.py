"""Writes a model into its folder: a version directory with its files, and code/lightbox.json."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from lightbox.base.telemetry import say
from lightbox.model_files.layout import WEIGHTS_NOTE
from lightbox.tools.model_zoo import folder as layout
from lightbox.tools.model_zoo.image_model import ImageModel, InputForm
from lightbox.tools.model_zoo.input_forms import left_to_caller, serving_function


def quiet_tensorflow() -> None:
    """Keep TensorFlow's start-up remarks out of the output; call it before the first import."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def export(model: ImageModel, form: InputForm, root: Path, version: int = 1, force: bool = False) -> Path:
    """Write the model as the SavedModel ROOT/<version> and return that directory."""
    settings = layout.settings_to_write(root, left_to_caller(model.scaling, form), force)
    return layout.write_version(root, version, settings, model.labels, partial(save, model, form))


def save(model: ImageModel, form: InputForm, directory: Path) -> None:
    """Write a plain SavedModel: the variables and one signature, `serving_default`; no Keras objects."""
    import tensorflow as tf

    module = tf.Module()
    module.keep = model.keep
    function: Any = serving_function(model, form).get_concrete_function()
    tf.saved_model.save(module, str(directory), signatures={"serving_default": function})
    shutil.rmtree(directory / "assets", ignore_errors=True)
    note = directory / WEIGHTS_NOTE
    note.parent.mkdir()
    note.write_text(model.weights + (": the predictions are meaningless" if model.random else "") + "\n")


def warn_of_random_weights(name: str, weights: str, remedy: str) -> None:
    """Warn that this model's predictions are meaningless, and say how to get real weights."""
    say.warning(
        f"{name} has {weights}: its predictions are meaningless, its latency is realistic.",
        remedy,
    )
