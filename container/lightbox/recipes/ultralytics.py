"""Reads what Ultralytics' exporter writes: ONNX's metadata, or ``metadata.yaml`` beside other formats.

Pixels are those of ``LetterBox`` and, for classifiers, of ``classify_transforms``; thresholds those of ``predict``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightbox.model.options import Recipe, RecipeError
from lightbox.model.presets import PRESETS
from lightbox.recipes.files import ModelFiles, class_names, literal, said_by

_TASKS = {
    "segment": "masks",
    "pose": "keypoints",
    "obb": "rotated boxes",
    "semantic": "a map of classes",
    "depth": "a map of depths",
}
"""Tasks whose answers stay tensors."""
_USUAL_SIDE = 640
_CLASSIFY = {"fit": "crop", "crop_pct": 1.0, "resize": "bilinear", "scaling": "unit"}
_STRETCHED = {"fit": "stretch", "resize": "opencv_bilinear", "scaling": "unit"}


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe in a file's notes: the task, the names of classes and the size of the input."""
    notes = files.signature.notes
    if "stride" not in notes or "names" not in notes or not ("task" in notes or "imgsz" in notes):
        return None
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
    if task == "detect" and not is_rtdetr:
        return Recipe({**options, **PRESETS["ultralytics"], "detections": "ultralytics"}, source, "task detect")
    if task not in _TASKS and not is_rtdetr:
        raise RecipeError(f"{source}: task: expected detect, classify, {', '.join(_TASKS)}, got {task[:40]!r}")
    del options["labels"]  # for what is returned as tensors
    pixels = _STRETCHED if task == "depth" or is_rtdetr else PRESETS["ultralytics"]
    gives = "boxes of RT-DETR" if is_rtdetr else _TASKS[task]
    return Recipe({**options, **pixels}, source, f"task {task}: {gives}, which are returned as tensors")


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
