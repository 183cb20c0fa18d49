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
    "ultralytics": {"fit": "letterbox", "pad": 114, "resize": "tf_bilinear", "scaling": "unit"},
    "tf-object-detection": {"fit": "stretch", "resize": "tf_bilinear", "scaling": "none"},
}
"""The options of ``code/lightbox.json`` for each preset."""
OF_LOGITS = frozenset({"torchvision", "timm"})
"""Presets of libraries whose classifiers give logits, unless an export adds a softmax or sigmoids."""

_REPLACED = {
    "scaling": ("mean", "std"),
    "fit": ("crop_pct", "pad"),
    "resize_shorter": ("crop_pct",),
}
"""Options of a preset that an override also removes: a mean belongs to its scaling, padding to its fit."""


def with_preset(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options merged with those of their preset, if any, and the implied ones."""
    name: str | None = options.get("preset")
    preset = dict(PRESETS[name]) if name else {}
    if options.get("channels") == "bgr":  # the model's order, which also applies to a mean
        preset |= {key: preset[key][::-1] for key in ("mean", "std") if key in preset}
    for key in options:
        for replaced in _REPLACED.get(key, ()):
            preset.pop(replaced, None)
    merged = {**preset, **options}
    if merged.get("mean") is not None or merged.get("std") is not None:
        merged.setdefault("scaling", "unit")
    if merged.get("fit") == "letterbox" and merged.get("pad") is None:
        merged["pad"] = 114
    return merged
