"""Answers that a model's outputs name: TensorFlow's Object Detection API, RF-DETR, torchvision and anomalib."""

from __future__ import annotations

from typing import Any

from lightbox.heads import outputs_problem
from lightbox.heads.detr import OF_RF_DETR
from lightbox.heads.maps import CLASSES, OF_ANOMALIES
from lightbox.heads.tensorflow import is_detector
from lightbox.images.preparation import IMAGENET_MEAN, IMAGENET_STD
from lightbox.model.options import RANKING, DetectionsName, ModelOptions, Recipe
from lightbox.model_files.recipes.files import ModelFiles
from lightbox.model_files.recipes.rfdetr import FORM, PIXELS

_OF_ANOMALIB = {"pred_score", "pred_label", "anomaly_map", "pred_mask"}
_RANK, _SHORTER = 4, 520
"""Of torchvision's maps, and the shorter side of its images."""
_TORCHVISION: tuple[tuple[DetectionsName, str], ...] = (
    ("torchvision", "objects"),
    ("torchvision-segment", "objects with masks"),
    ("torchvision-pose", "objects with keypoints"),
)


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of a model whose outputs have the names of one form."""
    outputs, image = files.signature.outputs, files.image
    if image is None:
        return None
    if is_detector(outputs) and image.dtype == "uint8":
        if set(files.own) & set(RANKING):  # then such objects have boxes as the outputs have them
            return None
        source = f"the outputs of {files.path.name}"
        return Recipe({"detections": "tf"}, source, "TensorFlow's Object Detection API")
    detr = ModelOptions(detections="detr")
    is_rf_detr = set(outputs) == OF_RF_DETR and outputs_problem(detr, outputs) is None  # else MMDeploy's
    if is_rf_detr and not files.has_open_sides:
        said = "RF-DETR as of release 1.9, before which it averaged pixels: set resize to bilinear"
        return Recipe({**PIXELS, **FORM}, f"the outputs dets and labels of {files.path.name}", said)
    return _of_anomalib(files) or _of_torchvision(files)


def _of_anomalib(files: ModelFiles) -> Recipe | None:
    """Return the recipe of anomalib's exports, which resize and normalize images in their graph."""
    if not set(files.signature.outputs) >= _OF_ANOMALIB:
        return None
    options: dict[str, Any] = {"scaling": "unit", "map": OF_ANOMALIES, "labels": ("normal", "anomalous")}
    if not files.has_open_sides:  # ModelAPI's way to them
        options |= {"fit": "stretch", "resize": "opencv_bilinear"}
    return Recipe(options, f"the outputs of {files.path.name}", "anomalib's anomalies")


def _of_torchvision(files: ModelFiles) -> Recipe | None:
    """Return the recipe of torchvision's detectors, which take photos of any size and resize them themselves."""
    outputs, source = files.signature.outputs, f"the outputs of {files.path.name}"
    for form, gives in _TORCHVISION:
        if outputs_problem(ModelOptions(detections=form), outputs) is None:
            if not files.has_open_sides:  # how photos get this size is not the library's
                said = f"torchvision's {gives}, returned as tensors: set fit, and detections to {form!r}"
                return Recipe({"scaling": "unit"}, source, said)
            options: dict[str, Any] = {"scaling": "unit", "detections": form, "score_threshold": 0.0}
            return Recipe(options, source, f"torchvision's {gives}")
    names, shape = set(outputs), outputs["out"].shape if "out" in outputs else None
    if not names <= {"out", "aux"} or shape is None or len(shape) != _RANK or not files.has_open_sides:
        return None
    options = {"map": CLASSES, "fit": "crop", "resize_shorter": _SHORTER, "resize": "bilinear", "scaling": "unit"}
    options |= {"mean": IMAGENET_MEAN, "std": IMAGENET_STD, **({"outputs": ("out",)} if len(names) > 1 else {})}
    return Recipe(options, f"the output out of {files.path.name}", f"torchvision's map, of {_SHORTER} pixels and more")
