"""Options by well-known names: how a library, or a family of models, prepares images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

PresetName = Literal["keras-mobilenet", "keras-resnet", "torchvision", "timm", "ultralytics", "tf-object-detection"]

_IMAGENET = {"scaling": "unit", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_MIDDLE = {"fit": "crop", "crop_pct": 0.875}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "keras-mobilenet": {"fit": "stretch", "resize": "nearest", "scaling": "tf"},
    "keras-resnet": {"fit": "stretch", "resize": "nearest", "scaling": "caffe"},
    "torchvision": {"resize": "bilinear", **_MIDDLE, **_IMAGENET},
    "timm": {"resize": "bicubic", **_MIDDLE, **_IMAGENET},
    "ultralytics": {"fit": "letterbox", "pad": 114, "resize": "opencv_bilinear", "scaling": "unit"},
    "tf-object-detection": {"fit": "stretch", "resize": "tf_bilinear", "scaling": "none"},
}
"""The options of ``code/lightbox.json`` for each preset."""
OF_LOGITS = frozenset({"torchvision", "timm"})
"""Presets of libraries whose classifiers give logits, unless an export adds a softmax or sigmoids."""

_REPLACED = {
    "scaling": ("mean", "std"),
    "fit": ("resize_shorter", "resize_longer", "crop_pct", "crop_offset", "pad", "pad_at", "rounding", "stride"),
    "resize_shorter": ("crop_pct",),
    "crop_pct": ("resize_shorter",),
}
"""Options of a preset or a recipe that an override also removes: a mean belongs to its scaling, padding to its fit."""

OF_PIXELS = frozenset({"resize", "scaling", "mean", "std", "channels", "fit", *_REPLACED["fit"]})
OF_ANSWERS = frozenset({"detections", "map", "keypoints", "activation", "top_k", "outputs", "labels", "dequantize"}) | {
    *("score_threshold", "iou_threshold", "class_agnostic", "thresholds")
}
"""Options of a recipe that belong together: a preset replaces the first, another output format the second."""


def with_preset(options: Mapping[str, Any], recipe: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return options merged with those of their preset, or else of a recipe, and the implied ones."""
    name: str | None = options.get("preset")
    left_out = OF_PIXELS if name else frozenset[str]()
    if options.keys() & {"detections", "map", "outputs"}:
        left_out |= OF_ANSWERS - {"labels"} if options.get("detections") or options.get("map") else OF_ANSWERS
    usable = {key: value for key, value in (recipe or {}).items() if key not in left_out}
    usual = usable | dict(PRESETS[name] if name else {})
    usual_order = usual.get("channels", "rgb")
    if options.get("channels", usual_order) != usual_order:  # the model's order, which also applies to a mean
        usual |= {key: usual[key][::-1] for key in ("mean", "std") if key in usual}
    for key in options:
        for replaced in _REPLACED.get(key, ()):
            usual.pop(replaced, None)
    merged = {**usual, **options}
    if merged.get("mean") is not None or merged.get("std") is not None:
        merged.setdefault("scaling", "unit")
    if merged.get("fit") == "letterbox" and merged.get("pad") is None:
        merged["pad"] = 114
    return merged
