"""Reads what Ultralytics' exporter writes: ONNX's metadata, or ``metadata.yaml`` beside other formats.

Pixels are those of ``LetterBox`` and, for classifiers, of ``classify_transforms``; thresholds those of ``predict``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightbox.heads import ranking_problem
from lightbox.model.options import MapName, ModelOptions, Recipe, RecipeError
from lightbox.model.presets import PRESETS
from lightbox.model_files.recipes.files import ModelFiles, class_names, literal, said_by

_FORMS = {
    "detect": "ultralytics",
    "segment": "ultralytics-segment",
    "pose": "ultralytics-pose",
    "obb": "ultralytics-obb",
}
"""The option ``detections`` of tasks with objects."""
_MAPS: Mapping[str, MapName] = {"semantic": "classes", "depth": "ultralytics-depth"}
"""The option ``map`` of tasks with maps."""
_USUAL_SIDE = 640
_CLASSIFY = {"fit": "crop", "crop_pct": 1.0, "resize": "bilinear", "scaling": "unit"}
_STRETCHED = {"fit": "stretch", "resize": "opencv_bilinear", "scaling": "unit"}


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe in a file's notes: the task, the names of classes and the size of the input."""
    notes = files.signature.notes
    if "stride" not in notes or "names" not in notes:
        return None
    if not ("task" in notes or "imgsz" in notes):
        return _of_v5(files)
    task = notes.get("task", "detect")
    source = f"the metadata of {files.path.name} (Ultralytics {said_by(notes.get('version', 'of unknown version'))})"
    names = class_names(literal(notes["names"], source, "names"), source, "names")
    options: dict[str, Any] = {"labels": names}
    # Older releases write no head; the description has the name of the network.
    is_rtdetr = "RTDETR" in notes.get("head", "") or "rtdetr" in notes.get("description", "").lower()
    if files.has_open_sides:
        is_letterboxed = task not in ("classify", "depth") and not is_rtdetr
        options |= _open(notes, source) if is_letterboxed else {"image_size": _size(notes.get("imgsz", ""), source)}
    if task == "classify":
        return Recipe(options | _CLASSIFY | {"activation": "none", "top_k": 5}, source, "task classify")
    if task in _FORMS and not is_rtdetr:
        options |= {**PRESETS["ultralytics"], "detections": _FORMS[task], **_keypoints(notes, task, source)}
        if problem := ranking_problem(ModelOptions().model_copy(update=options), files.seen_signature):
            raise RecipeError(f"{source}: task {task}: {problem}; set recipe to none, and the options")
        return Recipe(options, source, f"task {task}")
    if is_rtdetr:
        return Recipe({**options, **_STRETCHED, "detections": "rtdetr"}, source, f"task {task}, of RT-DETR")
    if task not in _MAPS:
        known = ", ".join((*_FORMS, "classify", *_MAPS))
        raise RecipeError(f"{source}: task: expected {known}, got {task[:40]!r}; set recipe to none")
    if task == "depth":
        del options["labels"]
    pixels = _STRETCHED if task == "depth" else PRESETS["ultralytics"]
    return Recipe({**options, **pixels, "map": _MAPS[task]}, source, f"task {task}, a map")


def _of_v5(files: ModelFiles) -> Recipe | None:
    """Return the recipe of a detector of YOLOv5, whose exporter writes no task; None for other networks."""
    source = f"the metadata of {files.path.name} (YOLOv5)"
    names = class_names(literal(files.signature.notes["names"], source, "names"), source, "names")
    form: dict[str, Any] = {"detections": "ultralytics-v5", "labels": names, "iou_threshold": 0.45, "top_k": 1000}
    if ranking_problem(ModelOptions().model_copy(update=form), files.seen_signature):
        return None
    size = {"image_size": (_USUAL_SIDE, _USUAL_SIDE)} if files.has_open_sides else {}
    return Recipe({**PRESETS["ultralytics"], **form, **size}, source, "task detect")


def _keypoints(notes: Mapping[str, str], task: str, source: str) -> dict[str, Any]:
    if task != "pose":
        return {}
    found = literal(notes.get("kpt_shape", ""), source, "kpt_shape")
    if not isinstance(found, list | tuple) or len(found) != 2 or not all(isinstance(number, int) for number in found):
        raise RecipeError(f"{source}: kpt_shape: expected keypoints and numbers of each, got {found!r}")
    return {"keypoints": tuple(found)}


def _open(notes: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return the size of an input with open sides: ``predict`` takes its own usual one, not that of the export."""
    stride = literal(notes["stride"], source, "stride")
    if not isinstance(stride, int):
        raise RecipeError(f"{source}: stride: expected a number of pixels, got {notes['stride'][:40]!r}")
    return {"image_size": (_USUAL_SIDE, _USUAL_SIDE), "stride": stride}


def _size(text: str, source: str) -> str:
    """Return width and height; the metadata have height and width."""
    found = literal(text, source, "imgsz")
    sides = [found, found] if isinstance(found, int) else found
    if not isinstance(sides, list | tuple) or len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise RecipeError(f"{source}: imgsz: expected height and width, got {text[:60]!r}")
    return f"{sides[1]}x{sides[0]}"
