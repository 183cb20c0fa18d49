"""Reads what RF-DETR's exporter writes into ONNX's metadata, or into a file beside other formats.

Pixels and thresholds are those of ``predict``, which resizes without an average since release 1.9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lightbox.images.preparation import IMAGENET_MEAN, IMAGENET_STD
from lightbox.model.options import Recipe, RecipeError
from lightbox.model_files.recipes.files import MOST_NAMES, ModelFiles, parsed, said_by

PIXELS: Mapping[str, Any] = {
    **{"fit": "stretch", "resize": "tf_bilinear", "scaling": "unit"},
    **{"mean": IMAGENET_MEAN, "std": IMAGENET_STD},
}
"""The pixels of networks of the library's own."""
FORM: Mapping[str, Any] = {"detections": "detr", "activation": "sigmoid", "score_threshold": 0.5}
_NOTE = "rfdetr_inference"
_NUMBERS = (("mean", "means"), ("std", "stds"))


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe in a file's notes or beside it: the task, the pixels and the names of classes."""
    if _NOTE in files.signature.notes:
        source = f"the metadata of {files.path.name}"
        found = parsed(json.loads, files.signature.notes[_NOTE], source, _NOTE)
    elif beside := files.json(f"{files.path.name}.rfdetr.json"):
        source, found = str(beside[0]), beside[1].get("metadata")
    else:
        return None
    if not isinstance(found, dict):
        raise RecipeError(f"{source}: expected an object of RF-DETR, got {type(found).__name__}")
    task, release = found.get("task"), said_by(found.get("producer_version") or "of unknown version")
    given = {key: tuple(found[name]) for key, name in _NUMBERS if isinstance(found.get(name), list)}
    source, pixels = f"{source} (RF-DETR {release})", {**PIXELS, **given}
    if task != "detect":
        return Recipe(pixels, source, f"task {said_by(task)}, whose outputs are returned as tensors")
    options = {**pixels, **FORM}
    if isinstance(found.get("num_select"), int):
        options["top_k"] = found["num_select"]
    if names := found.get("class_id_to_name"):
        options["labels"] = _labels(names, found.get("num_classes"), source)
    return Recipe(options, source, "task detect")


def _labels(names: Any, classes: Any, source: str) -> tuple[str, ...]:
    """Return a name for each class; those of COCO's numbers have gaps."""
    try:
        by_number = {int(number): str(name) for number, name in names.items()}
    except (AttributeError, TypeError, ValueError):
        by_number = {}
    count = max([*by_number, -1]) + 1
    if isinstance(classes, int):
        count = max(count, classes)
    if not by_number or min(by_number) < 0 or count > MOST_NAMES:
        raise RecipeError(f"{source}: class_id_to_name: expected the numbers of at most {MOST_NAMES:,} classes as keys")
    return tuple(by_number.get(number, "") for number in range(count))
