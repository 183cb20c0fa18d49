"""Reads what libreyolo's exporter writes into ONNX's metadata: the family of the network, which its pixels follow.

Pixels and thresholds are those of its own backend for ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightbox.heads import ranking_problem
from lightbox.model.options import ModelOptions, Recipe, RecipeError
from lightbox.model_files.recipes.files import ModelFiles, class_names, literal, said_by
from lightbox.model_files.recipes.rfdetr import FORM, PIXELS

_NOTE = "model_family"
_LETTERBOX: Mapping[str, Any] = {"fit": "letterbox", "pad": 114, "pad_at": "end", "rounding": "lower"}
_BGR: Mapping[str, Any] = {**_LETTERBOX, "resize": "bilinear", "channels": "bgr"}
_SUPPRESSED: Mapping[str, Any] = {"iou_threshold": 0.45, "score_threshold": 0.25}
_FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "yolo9": {**_LETTERBOX, "resize": "opencv_bilinear", "scaling": "unit", "detections": "libreyolo", **_SUPPRESSED},
    "yolox": {**_BGR, "scaling": "none", "detections": "libreyolo-yolox", **_SUPPRESSED},
    "rtmdet": {
        **{**_BGR, "scaling": "none", "mean": (103.53, 116.28, 123.675), "std": (57.375, 57.12, 58.395)},
        **{"detections": "libreyolo", **_SUPPRESSED},
    },
    "dfine": {**FORM, "fit": "stretch", "resize": "bilinear", "scaling": "unit", "score_threshold": 0.25},
    "rfdetr": {**PIXELS, **FORM, "score_threshold": 0.25},
}
"""Options of the networks that find objects, by family."""
_RAW = "raw"
"""The output that the library's own backend takes of a file that leaves out overlaps itself."""
_PADS: Mapping[str, str] = {"topleft": "end", "center": "sides"}
"""The option ``pad_at`` of each ``letterbox_pad``."""


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe in a file's notes: the family of the network, its letterbox and the names of classes."""
    notes = files.signature.notes
    if _NOTE not in notes or "libreyolo_version" not in notes:
        return None
    source = f"the metadata of {files.path.name} (libreyolo {said_by(notes['libreyolo_version'])})"
    family, task = notes[_NOTE], notes.get("task", "detect")
    if family not in _FAMILIES or task != "detect":
        known = ", ".join(_FAMILIES)
        raise RecipeError(
            f"{source}: {_NOTE}: expected {known} that detect, got {said_by(family)!r} for the task {said_by(task)!r}; "
            "set recipe to none, and the options"
        )
    options = dict(_FAMILIES[family])
    if "letterbox_pad" in notes:
        if notes["letterbox_pad"] not in _PADS:
            raise RecipeError(
                f"{source}: letterbox_pad: expected {' or '.join(_PADS)}, got {said_by(notes['letterbox_pad'])!r}; set "
                "recipe to none, and pad_at"
            )
        options["pad_at"] = _PADS[notes["letterbox_pad"]]
    if "names" in notes:
        options["labels"] = class_names(literal(notes["names"], source, "names"), source, "names")
    if _RAW in files.signature.outputs:
        options["outputs"] = (_RAW,)
    if problem := ranking_problem(ModelOptions().model_copy(update=options), files.seen_signature):
        raise RecipeError(f"{source}: {family}: {problem}; set recipe to none, and the options")
    return Recipe(options, source, f"{family}, objects")
