"""Reads ``config.json`` and ``preprocessor_config.json`` of Hugging Face's transformers.

Pixels are those of an image processor, scores those of ``pipeline`` and of ``post_process_object_detection``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from lightbox.model.options import Recipe, RecipeError
from lightbox.recipes.files import ModelFiles, class_names

_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box")
"""Filters by Pillow's number."""
_SOFTMAX = ("DetrForObjectDetection", "YolosForObjectDetection", "TableTransformerForObjectDetection")
"""Detectors with a last class for "no object"; all others have sigmoids."""
_LEAST_SHORTER = 384
"""A shorter side below this is that of the cut-out, in ConvNeXt's processor."""
_THRESHOLD = 0.5
"""Least score of an object in transformers' pipeline."""


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of a folder as ``save_pretrained`` and the exporters lay it out."""
    found, prepared = files.json("config.json"), files.json("preprocessor_config.json")
    architectures = found[1].get("architectures") if found else None
    if found is None or not isinstance(architectures, list) or not architectures:
        return None
    place, config = found
    name = str(architectures[0])
    if prepared is None:
        raise RecipeError(
            f"{place}: {name} needs preprocessor_config.json beside it, which has its pixels; copy it there, or set "
            "recipe to none"
        )
    options = _pixels(*prepared, files)
    said = f"transformers' {name}"
    if name.endswith("ForImageClassification"):
        activation = "sigmoid" if config.get("problem_type") == "multi_label_classification" else "softmax"
        options |= {"activation": activation, "top_k": 5, **_labels(place, config), **_outputs(files, "logits")}
        return Recipe(options, str(place), f"{said}, classes")
    if name.endswith("ForObjectDetection"):
        options |= {"detections": "detr", "activation": "softmax" if name in _SOFTMAX else "sigmoid"}
        options |= {"score_threshold": _THRESHOLD, **_labels(place, config), **_outputs(files, "logits", "pred_boxes")}
        return Recipe(options, str(place), f"{said}, objects")
    return Recipe(options, str(place), f"{said}, whose outputs are returned as tensors")


def _labels(place: Path, config: dict[str, Any]) -> dict[str, Any]:
    return {"labels": class_names(config["id2label"], str(place), "id2label")} if config.get("id2label") else {}


def _outputs(files: ModelFiles, *names: str) -> dict[str, Any]:
    """Return the outputs to take of a model that gives more."""
    given = files.signature.outputs
    return {"outputs": names} if len(given) > len(names) and set(names) <= set(given) else {}


def _pixels(place: Path, config: dict[str, Any], files: ModelFiles) -> dict[str, Any]:
    number = config.get("resample", 2)
    if not isinstance(number, int) or not 0 <= number < len(_FILTERS):
        raise RecipeError(f"{place}: resample: expected 0 to {len(_FILTERS) - 1}, got {number!r}")
    options: dict[str, Any] = {"resize": _FILTERS[number], "scaling": "none"}
    if config.get("do_rescale", True):
        factor = config.get("rescale_factor", 1 / 255)
        if not isinstance(factor, int | float) or not math.isclose(factor, 1 / 255, rel_tol=1e-3):
            raise RecipeError(f"{place}: rescale_factor: expected 1/255, got {factor!r}; set recipe to none")
        options["scaling"] = "unit"
    if config.get("do_normalize"):
        options |= {"mean": _numbers(place, config, "image_mean"), "std": _numbers(place, config, "image_std")}
    if config.get("do_resize", True):
        options |= _fit(place, config, files)
    return options


def _numbers(place: Path, config: dict[str, Any], key: str) -> tuple[float, ...]:
    found = config.get(key)
    if not isinstance(found, list) or not all(isinstance(number, int | float) for number in found):
        raise RecipeError(f"{place}: {key}: expected a number for each channel, got {found!r}")
    return tuple(found)


def _fit(place: Path, config: dict[str, Any], files: ModelFiles) -> dict[str, Any]:
    size = config.get("size")
    sides = {"height": size, "width": size} if isinstance(size, int) else size
    cut = config.get("crop_size") if config.get("do_center_crop") else None
    if isinstance(cut, int):
        cut = {"height": cut, "width": cut}
    if not isinstance(sides, dict) or not (cut is None or isinstance(cut, dict)):
        raise RecipeError(f"{place}: size: expected height and width, or shortest_edge; got {size!r}")
    shorter = sides.get("shortest_edge")
    image = files.image
    fixed = (image.width, image.height) if image is not None and not files.has_open_sides else None
    if "height" in sides and "width" in sides and cut is None:
        return _sized({"fit": "stretch"}, (sides["width"], sides["height"]), fixed, place)
    if isinstance(shorter, int) and cut is not None:
        return _sized(
            {"fit": "crop", "crop_offset": "lower", "resize_shorter": shorter},
            (cut["width"], cut["height"]),
            fixed,
            place,
        )
    if isinstance(shorter, int) and "crop_pct" in config:
        if shorter >= _LEAST_SHORTER:
            return _sized({"fit": "stretch"}, (shorter, shorter), fixed, place)
        return _sized(
            {"fit": "crop", "crop_offset": "lower", "resize_shorter": int(shorter / config["crop_pct"])},
            (shorter, shorter),
            fixed,
            place,
        )
    raise RecipeError(
        f"{place}: size: expected height and width, or shortest_edge with a cut; got {size!r}, which keeps the "
        "proportions of each image and cannot be followed; set fit, image_size and scaling"
    )


def _sized(
    options: dict[str, Any], size: tuple[int, int], fixed: tuple[int | None, int | None] | None, place: Path
) -> dict[str, Any]:
    if fixed is None:
        return {**options, "image_size": size}
    if fixed != size:
        raise RecipeError(
            f"{place}: size: expected {fixed[0]}x{fixed[1]}, that of the model's input, got {size[0]}x{size[1]}; set "
            "recipe to none, and the options"
        )
    return options
