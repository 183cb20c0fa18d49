"""Reads timm's ``config.json``: its ``pretrained_cfg`` has the pixels of ``timm.data.create_transform``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightbox.images.preparation import IMAGENET_MEAN, IMAGENET_STD
from lightbox.model.options import Recipe, RecipeError
from lightbox.model_files.recipes.files import ModelFiles, class_names, said_by

_FILTERS = ("bicubic", "bilinear", "nearest", "lanczos", "box")
_CROPS = ("center", "squash")
_OF_PAIRS, _FINE_TUNED = ("clip", "siglip"), "_ft_"
"""In the names of networks for pictures with texts, whose last layer projects; and of those that became classifiers."""
_USUAL: Mapping[str, Any] = {
    **{"interpolation": "bicubic", "crop_pct": 0.875, "crop_mode": "center"},
    **{"mean": IMAGENET_MEAN, "std": IMAGENET_STD},
}
"""timm's values for what a file leaves out."""


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of a folder as ``timm.models.push_to_hf_hub`` and timm's exports lay it out."""
    found = files.json("config.json")
    if found is None or not isinstance(found[1].get("pretrained_cfg"), dict):
        return None
    place, config = found
    given = {key: value for key, value in config["pretrained_cfg"].items() if value not in (None, "")}
    pixels: dict[str, Any] = {**_USUAL, **given}
    crop, share, interpolation = pixels["crop_mode"], pixels["crop_pct"], pixels["interpolation"]
    for key, value, known in (("crop_mode", crop, _CROPS), ("interpolation", interpolation, _FILTERS)):
        if value not in known:
            raise RecipeError(f"{place}: {key}: expected {', '.join(known)}, got {value!r}; set recipe to none")
    if crop == "squash" and share != 1:
        raise RecipeError(f"{place}: crop_pct: expected 1 beside crop_mode 'squash', got {share!r}; set recipe to none")
    options: dict[str, Any] = {"resize": interpolation, "scaling": "unit"}
    options |= {"fit": "stretch"} if crop == "squash" else {"fit": "crop", "crop_pct": share}
    options |= {key: pixels[key] for key in ("mean", "std")}
    if files.has_open_sides:
        options["image_size"] = _size(pixels.get("input_size"), place)
    network = said_by(config.get("architecture", "network"))
    classes = config.get("num_classes", pixels.get("num_classes"))
    if classes in (0, 1):  # a softmax of one number says nothing
        return Recipe(options, str(place), f"timm's {network}, features or one number")
    names = config.get("label_names", pixels.get("label_names"))
    of_pairs = f"{config.get('architecture', '')}.{pixels.get('tag', '')}"
    if not names and _FINE_TUNED not in of_pairs and any(kind in of_pairs for kind in _OF_PAIRS):
        return Recipe(options, str(place), f"timm's {network}, an embedding")
    options |= {"activation": "softmax", "top_k": 5}
    if names:
        options["labels"] = _described(class_names(names, str(place), "label_names"), config)
    return Recipe(options, str(place), f"timm's {network}, classes")


def _described(names: tuple[str, ...], config: dict[str, Any]) -> tuple[str, ...]:
    """Return the names that people read, where the file has them beside the short ones."""
    described = config.get("label_descriptions")
    return tuple(str(described.get(name, name)) for name in names) if isinstance(described, dict) else names


def _size(found: object, place: Path) -> str:
    if not isinstance(found, list) or len(found) != 3 or not all(isinstance(side, int) for side in found):
        raise RecipeError(f"{place}: input_size: expected channels, height and width, got {found!r}")
    return f"{found[2]}x{found[1]}"
