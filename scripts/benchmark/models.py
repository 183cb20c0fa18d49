"""Makes the model folders that the stacks serve, once, in build/."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmark import photos
from benchmark.servers import REPOSITORY
from lightbox.tools.model_zoo import folder as layout
from lightbox.tools.model_zoo.image_model import ImageModel
from lightbox.tools.optimize.pictures import find_pictures

MODELS = REPOSITORY / "build" / "benchmark_models"
DETECTIONS = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")
"""The outputs of efficientdet_d1 that a caller can use; the other four are 40 MB."""
QUANTIZE_VENV = REPOSITORY / ".venv-quantize"
CALIBRATED = 64
"""Crops that calibrate an INT8 model."""


def saved_model(folder: Path, name: str, form: str) -> None:
    """Export an ``image_model`` with one input form, unless it exists."""
    if layout.versions(folder):
        return
    from lightbox.tools.model_zoo.export import export

    export(image_model(name), form, folder)  # type: ignore[arg-type]
    if name == "efficientdet_d1":
        settings = folder / layout.SETTINGS
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"outputs": DETECTIONS}) + "\n")


def classifiers() -> Path:
    """Return the folder of mobilenet_v2 in three forms of input."""
    root = MODELS / "main"
    for form, name in (("float32", "mobilenet_v2"), ("uint8", "mobilenet_v2_uint8"), ("bytes", "mobilenet_v2_bytes")):
        saved_model(root / name, "mobilenet_v2", form)
    return root


def classifier_and_detector() -> Path:
    """Return the folder of mobilenet_v2 and efficientdet_d1."""
    root = MODELS / "classifier_and_detector"
    link(root / "mobilenet_v2", classifiers() / "mobilenet_v2")
    saved_model(root / "efficientdet_d1", "efficientdet_d1", "uint8")
    return root


def alone(name: str) -> Path:
    """Return a folder with one model, to measure the memory of a stack with one model."""
    root = MODELS / f"{name}_alone"
    link(root / name, _with_pixels(name))
    return root


def _with_pixels(name: str) -> Path:
    """Return the folder of a model that takes pixels."""
    if name != "efficientnet_lite0":
        return classifiers() / name
    saved_model(folder := MODELS / "networks" / "saved" / name, name, "uint8")
    return folder


def quantized(name: str) -> Path:
    """Return a folder with one model, which has an INT8 model beside its graph.

    It is calibrated with crops of photographs. Raises CalledProcessError, or FileNotFoundError if the virtual
    environment for quantization is missing: ``make bench`` creates it.
    """
    root = MODELS / f"{name}_int8"
    if not (root / name).exists():
        partial = root / f".{name}"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(_with_pixels(name), partial / name)
        photos.write_crops(MODELS / "crops", CALIBRATED)
        _quantize(partial / name, MODELS / "crops")
        (partial / name).rename(root / name)
    return root


def _quantize(model: Path, images: Path) -> None:
    python = QUANTIZE_VENV / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"{QUANTIZE_VENV} is missing, in which models are quantized: `make bench` makes it")
    environ = dict(os.environ) | {"PYTHONPATH": str(REPOSITORY / "container")}
    task = {"model": str(model), "options": {}, "folder": str(model / "1"), "pictures": find_pictures(images)}
    with tempfile.TemporaryDirectory() as folder:
        asked, made = Path(folder, "task.json"), Path(folder, "made.json")
        asked.write_text(json.dumps(task))
        command = [str(python), "-m", "lightbox.tools.optimize.calibration", str(asked), str(made)]
        subprocess.run(command, env=environ, check=True, stdout=sys.stderr)  # noqa: S603 - our own module
        if made.read_text() != "true":
            raise RuntimeError(made.read_text())


def link(path: Path, target: Path) -> None:
    """Make ``path`` a symbolic link to ``target``, in place of any other link."""
    if path.is_symlink() and path.readlink() != target:
        path.unlink(missing_ok=True)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another process makes the same
            path.symlink_to(target, target_is_directory=True)


def image_model(name: str) -> ImageModel:
    """Return a network of the zoo, with the weights that all measured servers share."""
    from lightbox.tools.model_zoo.export import quiet_tensorflow

    quiet_tensorflow()
    from lightbox.tools.model_zoo.zoo import CATALOGUE

    entry = CATALOGUE[name]
    return entry.build(entry.weights[0], None)


def many_models(count: int) -> Path:
    """Return a folder of ``count`` identical small models: uint8 [N, 8, 8, 3] to float32 [N, 1024]."""
    tiny = MODELS / "tiny"
    save_function(tiny, _row_of_mean, "image", "uint8", (8, 8, 3))
    root = MODELS / f"many_{count}"
    for number in range(count):
        link(root / f"model_{number:03}" / "1", tiny / "1")
    return root


def _row_of_mean(image: Any) -> dict[str, Any]:
    import tensorflow as tf

    mean = tf.reduce_mean(tf.cast(image, tf.float32), axis=[1, 2, 3])
    return {"row": mean[:, None] * 0.001 + tf.range(1024, dtype=tf.float32)[None] * 1e-7}


def save_function(folder: Path, function: Callable[[Any], Any], name: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Save a function of a tensor [N, *shape] as version 1 of a model, unless it exists."""
    if layout.versions(folder):
        return
    from lightbox.tools.model_zoo.export import quiet_tensorflow

    quiet_tensorflow()
    import tensorflow as tf

    graph = tf.function(function, input_signature=[tf.TensorSpec([None, *shape], dtype, name=name)])
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    tf.saved_model.save(tf.Module(), str(partial), signatures={"serving_default": graph.get_concrete_function()})
    folder.mkdir(parents=True, exist_ok=True)
    partial.rename(folder / "1")
