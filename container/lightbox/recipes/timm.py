"""Reads timm's ``config.json``: its ``pretrained_cfg`` has the pixels of ``timm.data.create_transform``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightbox.model.options import Recipe, RecipeError
from lightbox.recipes.files import ModelFiles, class_names

_FILTERS = ("bicubic", "bilinear", "nearest", "lanczos", "box")
_CROPS = ("center", "squash")


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of a folder as ``timm.models.push_to_hf_hub`` and timm's exports lay it out."""
    found = files.json("config.json")
    if found is None or not isinstance(found[1].get("pretrained_cfg"), dict):
        return None
    place, config = found
    pixels: dict[str, Any] = {**config["pretrained_cfg"]}
    crop, share = pixels.get("crop_mode", "center"), pixels.get("crop_pct", 1)
    interpolation = pixels.get("interpolation", "bicubic")
    for key, value, known in (("crop_mode", crop, _CROPS), ("interpolation", interpolation, _FILTERS)):
        if value not in known:
            raise RecipeError(f"{place}: {key}: expected {', '.join(known)}, got {value!r}; set recipe to none")
    if crop == "squash" and share != 1:
        raise RecipeError(f"{place}: crop_pct: expected 1 beside crop_mode 'squash', got {share!r}; set recipe to none")
    options: dict[str, Any] = {"resize": interpolation, "scaling": "unit"}
    options |= {"fit": "stretch"} if crop == "squash" else {"fit": "crop", "crop_pct": share}
    options |= {key: tuple(pixels[key]) for key in ("mean", "std") if pixels.get(key)}
    if files.has_open_sides:
        options["image_size"] = _size(pixels.get("input_size"), place)
    classes = config.get("num_classes", pixels.get("num_classes"))
    if classes == 0:
        return Recipe(options, str(place), f"timm's {config.get('architecture', 'network')}, features")
    names = config.get("label_names", pixels.get("label_names"))
    options |= {"activation": "softmax", "top_k": 5}
    if names:
        options["labels"] = _described(class_names(names, str(place), "label_names"), config)
    return Recipe(options, str(place), f"timm's {config.get('architecture', 'network')}, classes")


def _described(names: tuple[str, ...], config: dict[str, Any]) -> tuple[str, ...]:
    """Return the names that people read, where the file has them beside the short ones."""
    described = config.get("label_descriptions")
    return tuple(str(described.get(name, name)) for name in names) if isinstance(described, dict) else names


def _size(found: object, place: Path) -> tuple[int, int]:
    if not isinstance(found, list) or len(found) != 3 or not all(isinstance(side, int) for side in found):
        raise RecipeError(f"{place}: input_size: expected channels, height and width, got {found!r}")
    return found[2], found[1]
