"""Answers that a model's outputs name by themselves: TensorFlow's Object Detection API, and RF-DETR."""

from __future__ import annotations

from collections.abc import Collection

from lightbox.heads import outputs_problem
from lightbox.heads.tensorflow import is_detector
from lightbox.model.options import RANKING, ModelOptions, Recipe
from lightbox.recipes import rfdetr
from lightbox.recipes.files import ModelFiles

_RF_DETR = {"dets", "labels"}


def read(files: ModelFiles, own: Collection[str] = ()) -> Recipe | None:
    """Return the recipe of a model whose outputs have the names of one form. ``own`` are options that are set."""
    outputs, image = files.signature.outputs, files.image
    if image is None:
        return None
    if is_detector(outputs) and image.dtype == "uint8":
        if set(own) & set(RANKING):  # then such objects have boxes as the outputs have them
            return None
        source = f"the outputs of {files.path.name}"
        return Recipe({"detections": "tf"}, source, "TensorFlow's Object Detection API")
    detr = ModelOptions(detections="detr")
    is_rf_detr = set(outputs) == _RF_DETR and outputs_problem(detr, outputs) is None  # else MMDeploy's
    if is_rf_detr and not files.has_open_sides:
        said = "RF-DETR as of release 1.9, before which it averaged pixels: set resize to bilinear"
        return Recipe({**rfdetr.PIXELS, **rfdetr.FORM}, f"the outputs dets and labels of {files.path.name}", said)
    return None
