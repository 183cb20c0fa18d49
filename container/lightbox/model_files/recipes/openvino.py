"""Reads ``rt_info/model_info`` of OpenVINO IR, which Geti, OTX and others write for OpenVINO's ModelAPI.

Pixels and thresholds are those of ModelAPI's wrappers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightbox.heads import outputs_problem
from lightbox.heads.classes import shape_of_classes
from lightbox.model.options import DetectionsName, ModelOptions, Recipe, RecipeError
from lightbox.model_files.recipes.files import ModelFiles, class_names, parsed, said_by
from lightbox.model_runtime.formats.openvino_ir import ENDS, INFO

_OF_EXPLANATIONS = {"saliency_map", "feature_vector", "raw_scores"}
_FITS: Mapping[str, Mapping[str, str]] = {
    "standard": {"fit": "stretch"},
    "fit_to_window": {"fit": "letterbox", "pad_at": "end"},
    "fit_to_window_letterbox": {"fit": "letterbox"},
}
_TRUE = ("yes", "true", "1")
_ULTRALYTICS, _LEAST_SCORE = "yolo", "0.5"


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of an IR with a ``model_type``, but of Ultralytics' if that describes itself."""
    notes = files.signature.notes
    said = {key.removeprefix(INFO): value for key, value in notes.items() if key.startswith(INFO)}
    if "model_type" not in said or (said["model_type"].lower().startswith(_ULTRALYTICS) and "task" in notes):
        return None
    source, kind = f"model_info of {files.path.name}", said["model_type"]
    if said.get("embedded_processing", "").lower() in _TRUE:
        return Recipe({"scaling": "none"}, source, f"{said_by(kind)} with its own preparation, returned as tensors")
    options = _pixels(files, said, source)
    labels = (
        class_names(parsed(str.split, said["labels"], source, "labels"), source, "labels") if said.get("labels") else ()
    )
    if kind == "Classification" and said.get("hierarchical", "").lower() not in _TRUE:
        return Recipe({**options, **_classes(files, said, labels)}, source, "Classification")
    form: DetectionsName = "ultralytics" if kind.lower().startswith(_ULTRALYTICS) else "mmdet"
    if outputs_problem(ModelOptions(detections=form), _plain(files)) is None:
        least = said.get("confidence_threshold", _LEAST_SCORE)
        options |= {"detections": form, "score_threshold": parsed(float, least, source, "confidence_threshold")}
        options |= {"outputs": tuple(_plain(files))} if len(_plain(files)) < len(files.signature.outputs) else {}
        options |= {"labels": labels} if labels else {}
        return Recipe(options, source, f"{said_by(kind)}, objects")
    return Recipe(options, source, f"{said_by(kind)}, whose outputs are returned as tensors")


def _plain(files: ModelFiles) -> dict[str, Any]:
    """Return the outputs that explain nothing."""
    return {name: spec for name, spec in files.signature.outputs.items() if name not in _OF_EXPLANATIONS}


def _classes(files: ModelFiles, said: Mapping[str, str], labels: tuple[str, ...]) -> dict[str, Any]:
    """Return how scores are made and named: a softmax, unless the graph ends in one, or sigmoids."""
    outputs = _plain(files)
    name, spec = next(iter(outputs.items()))
    ends = files.signature.notes.get(f"{ENDS}{name}", "")
    is_each = said.get("multilabel", "").lower() in _TRUE
    options: dict[str, Any] = {"activation": "sigmoid" if is_each else "none" if ends == "SoftMax" else "softmax"}
    options["top_k"] = 5
    if len(files.signature.outputs) > 1:
        options["outputs"] = (name,)
    shape = shape_of_classes(spec.shape) if spec.shape else ()
    if labels:  # ModelAPI's wrapper adds the first one itself
        options["labels"] = ("other", *labels) if shape[1:] == (len(labels) + 1,) else labels
    return options


def _pixels(files: ModelFiles, said: Mapping[str, str], source: str) -> dict[str, Any]:
    kind = said.get("resize_type", "standard")
    if kind not in _FITS:
        raise RecipeError(
            f"{source}: resize_type: expected {', '.join(_FITS)}, got {said_by(kind)!r}; set recipe to none, and fit"
        )
    if (mode := said.get("intensity_mode", "none")) != "none":
        raise RecipeError(f"{source}: intensity_mode: expected none, got {said_by(mode)!r}; set recipe to none")
    options: dict[str, Any] = {**_FITS[kind], "resize": "opencv_bilinear", "scaling": "none"}
    if options["fit"] == "letterbox":
        options["pad"] = parsed(int, said.get("pad_value", "0"), source, "pad_value")
    for key, name in (("mean", "mean_values"), ("std", "scale_values")):
        if said.get(name):
            options[key] = tuple(parsed(_numbers, said[name], source, name))
    return options | _channels(files, said, options.get("mean", ()), source)


def _channels(files: ModelFiles, said: Mapping[str, str], mean: tuple[float, ...], source: str) -> dict[str, str]:
    """Return the order of the network: ModelAPI takes that of its caller, or the other one.

    Means of photos tell it: red has more than blue.
    """
    if len(mean) > 1 and mean[0] != mean[-1]:
        return {"channels": "rgb" if mean[0] > mean[-1] else "bgr"}
    if said.get("reverse_input_channels", "").lower() in _TRUE:  # callers have the order of OpenCV
        return {"channels": "rgb"}
    if "channels" in files.own or (files.image and files.image.channels == 1):
        return {}
    raise RecipeError(
        f"{source}: reverse_input_channels: expected true, or mean_values that tell the order of colors; set channels "
        "to 'rgb' or 'bgr'"
    )


def _numbers(text: str) -> list[float]:
    return [float(one) for one in text.split()]
