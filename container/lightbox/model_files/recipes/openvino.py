"""Reads ``rt_info/model_info`` of OpenVINO IR, which Geti, OTX and others write for OpenVINO's ModelAPI.

Pixels and thresholds are those of ModelAPI's wrappers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightbox.heads import outputs_problem
from lightbox.heads.anomalies import SCORE
from lightbox.heads.classes import shape_of_classes
from lightbox.heads.maps import MODEL_API_CLASSES, OF_ANOMALIES
from lightbox.model.options import DetectionsName, ModelOptions, Recipe, RecipeError
from lightbox.model_files.recipes.files import ModelFiles, class_names, parsed, said_by
from lightbox.model_runtime.formats.signature import ENDS, INFO

_OF_EXPLANATIONS = {"saliency_map", "feature_vector", "raw_scores"}
_FITS: Mapping[str, Mapping[str, str]] = {
    "standard": {"fit": "stretch"},
    "fit_to_window": {"fit": "letterbox", "pad_at": "end"},
    "fit_to_window_letterbox": {"fit": "letterbox"},
}
_FOLLOWED = (
    *(("intensity_mode", "none"), ("interpolation_mode", "LINEAR"), ("input_dtype", "u8")),
    ("intensity_repeat_channels", "False"),
)
"""Further keys of pixels, and the values that can be followed."""
_TRUE = ("yes", "true", "1")
_LETTERBOXED = {"resize_type": "fit_to_window_letterbox"}
_SCALED = {**_LETTERBOXED, "pad_value": "114", "scale_values": "255"}
_ULTRALYTICS = {**_SCALED, "reverse_input_channels": "True", "confidence_threshold": "0.25"}
_ULTRALYTICS |= {"nms_execute": "True", "iou_threshold": "0.7"}
_CLASSES = "classification"
_USUAL: Mapping[str, Mapping[str, str]] = {
    **{_CLASSES: {}, "ssd": {}, "maskrcnn": {}, "detrinstseg": {}, "segmentation": {}, "keypoint_detection": {}},
    **{"anomalydetection": {}, "yolof": {}, "yolo": _LETTERBOXED, "yolov4": _LETTERBOXED, "yolo-seg": _SCALED},
    **{"yolov5": _ULTRALYTICS, "yolov8": _ULTRALYTICS, "yolo11": _ULTRALYTICS},
}
"""The wrappers that prepare images as the file says, by ``model_type``, with their values for what it leaves out."""
_FEWEST = 2
_LEAST_SCORE, _OVERLAP = "0.5", "0.5"
_THRESHOLDS = {"image_threshold": "0.5", "pixel_threshold": "0.5", "normalization_scale": "1.0"}


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of an IR with a ``model_type``, but of Ultralytics' if that describes itself."""
    notes = files.signature.notes
    said = {key.removeprefix(INFO): value for key, value in notes.items() if key.startswith(INFO)}
    kind = said.get("model_type", "").lower()
    if not kind or (kind.startswith("yolo") and "task" in notes):
        return None
    source, name = f"model_info of {files.path.name}", said_by(said["model_type"])
    if _is_true(said, "embedded_processing"):
        return Recipe({"scaling": "none"}, source, f"{name} with its own preparation, returned as tensors")
    if kind not in _USUAL:
        raise RecipeError(
            f"{source}: model_type: expected {', '.join(_USUAL)}, got {name!r}, which prepares images in its own way; "
            "set recipe to none, and the options"
        )
    said = {**_USUAL[kind], **said}
    options = _pixels(files, said, source)
    labels = (
        class_names(parsed(str.split, said["labels"], source, "labels"), source, "labels") if said.get("labels") else ()
    )
    if kind == _CLASSES and not _is_true(said, "hierarchical"):
        return Recipe({**options, **_classes(files, said, labels)}, source, name)
    if (more := _map(files, said, labels, source)) is not None:
        gives = "anomalies" if more["map"] == OF_ANOMALIES else "a map of classes"
        return Recipe({**options, **more}, source, f"{name}, {gives}")
    form: DetectionsName = "ultralytics" if _USUAL[kind] is _ULTRALYTICS else "mmdet"
    missing = "hierarchical, " if kind == _CLASSES else ""
    if form != "ultralytics" and _is_true(said, "nms_execute"):
        missing = "with overlaps that nms_execute leaves out, "
    elif outputs_problem(ModelOptions(detections=form), _plain(files)) is None:
        least = said.get("confidence_threshold", _LEAST_SCORE)
        options |= {"detections": form, "score_threshold": parsed(float, least, source, "confidence_threshold")}
        options |= _overlaps(said, source) if form == "ultralytics" else {}
        options |= {"outputs": tuple(_plain(files))} if len(_plain(files)) < len(files.signature.outputs) else {}
        options |= {"labels": labels} if labels else {}
        return Recipe(options, source, f"{name}, objects")
    return Recipe(options, source, f"{name}, {missing}whose outputs are returned as tensors")


def _map(files: ModelFiles, said: Mapping[str, str], labels: tuple[str, ...], source: str) -> dict[str, Any] | None:
    """Return the options of a map of anomalies or of classes; None for others."""
    kind, outputs = said["model_type"].lower(), _plain(files)
    if kind == "anomalydetection":
        numbers = tuple(parsed(float, said.get(key, usual), source, key) for key, usual in _THRESHOLDS.items())
        options: dict[str, Any] = {"labels": labels} if labels else {}
        return options | {"map": OF_ANOMALIES} | ({} if SCORE in files.signature.outputs else {"thresholds": numbers})
    classes = _classes_of_pixels(outputs, said) if kind == "segmentation" else 0
    if classes < _FEWEST:
        return None
    # Of Geti's files the first class is the background, which has no label.
    named = ("background", *labels) if len(labels) == classes - 1 else labels
    options = {"labels": named} if len(named) == classes else {}
    options |= {"outputs": tuple(outputs)} if len(outputs) < len(files.signature.outputs) else {}
    return {**options, "map": MODEL_API_CLASSES}


def _classes_of_pixels(outputs: Mapping[str, Any], said: Mapping[str, str]) -> int:
    """Return how many classes a map of logits has; 0 for others, for blurred ones, and for those with padding."""
    is_plain = said.get("blur_strength", "-1") == "-1" or said.get("soft_threshold", "") == "inf"
    shapes = [spec.shape for spec in outputs.values()]
    if not is_plain or said.get("resize_type", "standard") != "standard" or len(shapes) != 1:
        return 0
    (shape,) = shapes
    return (shape[1] or 0) if shape is not None and len(shape) == len("NCHW") else 0


def _is_true(said: Mapping[str, str], key: str) -> bool:
    return said.get(key, "").lower() in _TRUE


def _overlaps(said: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return which boxes are one object; none are without ``nms_execute``."""
    largest = parsed(float, said.get("iou_threshold", _OVERLAP), source, "iou_threshold")
    options: dict[str, Any] = {"iou_threshold": largest if _is_true(said, "nms_execute") else 1.0}
    return options | ({"class_agnostic": True} if _is_true(said, "agnostic_nms") else {})


def _plain(files: ModelFiles) -> dict[str, Any]:
    """Return the outputs that explain nothing."""
    return {name: spec for name, spec in files.signature.outputs.items() if name not in _OF_EXPLANATIONS}


def _classes(files: ModelFiles, said: Mapping[str, str], labels: tuple[str, ...]) -> dict[str, Any]:
    """Return how scores are made and named: a softmax, unless the graph ends in one, or sigmoids."""
    outputs = _plain(files)
    name, spec = next(iter(outputs.items()))
    ends = files.signature.notes.get(f"{ENDS}{name}", "")
    is_each = _is_true(said, "multilabel")
    options: dict[str, Any] = {"activation": "sigmoid" if is_each else "none" if ends == "SoftMax" else "softmax"}
    if len(files.signature.outputs) > 1:
        options["outputs"] = (name,)
    shape = shape_of_classes(spec.shape) if spec.shape else ()
    options["top_k"] = shape[1] if is_each and len(shape) > 1 and shape[1] else 5
    if labels:  # ModelAPI's wrapper adds the first one itself
        options["labels"] = ("other", *labels) if shape[1:] == (len(labels) + 1,) else labels
    return options


def _pixels(files: ModelFiles, said: Mapping[str, str], source: str) -> dict[str, Any]:
    kind = said.get("resize_type", "standard")
    if kind not in _FITS:
        raise RecipeError(
            f"{source}: resize_type: expected {', '.join(_FITS)}, got {said_by(kind)!r}; set recipe to none, and fit"
        )
    for key, value in _FOLLOWED:
        if (found := said.get(key, value)).lower() != value.lower():
            raise RecipeError(f"{source}: {key}: expected {value}, got {said_by(found)!r}; set recipe to none")
    options: dict[str, Any] = {**_FITS[kind], "resize": "openvino_bilinear", "scaling": "none"}
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
    if _is_true(said, "reverse_input_channels"):  # callers have the order of OpenCV
        return {"channels": "rgb"}
    if "channels" in files.own or (files.image and files.image.channels == 1):
        return {}
    raise RecipeError(
        f"{source}: reverse_input_channels: expected true, or mean_values that tell the order of colors; set channels "
        "to 'rgb' or 'bgr'"
    )


def _numbers(text: str) -> list[float]:
    return [float(one) for one in text.split()]
