"""All that timm writes into ``config.json`` becomes options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.model.options import RecipeError, ResolvedOptions
from support.recipes import Sides, resolved, write_network

PIXELS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.1], "interpolation": "bilinear", "crop_pct": 0.95}
CONFIG = {"architecture": "resnet18", "num_classes": 3, "pretrained_cfg": {"input_size": [3, 64, 96], **PIXELS}}


def options_of(folder: Path, config: dict[str, Any], sides: Sides = (64, 64), **own: Any) -> ResolvedOptions:
    file = write_network(folder / "net.onnx", {"logits": np.zeros((1, 3))}, sides)
    (folder / "config.json").write_text(json.dumps(config))
    return resolved(file, own)


def test_a_classifier_needs_no_options(tmp_path: Path) -> None:
    options = options_of(tmp_path, CONFIG | {"label_names": ["a", "b", "c"], "label_descriptions": {"b": "bee"}})
    assert (options.fit, options.crop_pct, options.resize, options.scaling) == ("crop", 0.95, "bilinear", "unit")
    assert (options.mean, options.std, options.image_size) == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.1), None)
    assert (options.labels, options.activation, options.top_k) == (("a", "bee", "c"), "softmax", 5)


def test_open_sides_get_the_size_of_the_training(tmp_path: Path) -> None:
    assert options_of(tmp_path, CONFIG, ("height", "width")).image_size == (96, 64)


def test_classes_without_names_are_numbers_and_features_stay_tensors(tmp_path: Path) -> None:
    assert (options_of(tmp_path, CONFIG).labels, options_of(tmp_path, CONFIG).top_k) == (None, 5)
    for classes in (0, 1):
        features = options_of(tmp_path, CONFIG | {"num_classes": classes})
        assert (features.top_k, features.activation, features.scaling) == (None, None, "unit")


def test_an_option_replaces_what_the_file_says(tmp_path: Path) -> None:
    own = options_of(tmp_path, CONFIG, scaling="tf", top_k=2)
    assert (own.scaling, own.mean, own.top_k, own.crop_pct) == ("tf", None, 2, 0.95)
    preset = options_of(tmp_path, CONFIG, preset="timm")
    assert (preset.mean, preset.crop_pct, preset.activation) == ((0.485, 0.456, 0.406), 0.875, "softmax")
    assert preset.of_recipe == {"activation", "top_k"}
    assert options_of(tmp_path, CONFIG, channels="bgr").mean == (0.3, 0.4, 0.5)
    none = options_of(tmp_path, CONFIG, recipe="none")
    assert (none.recipe_source, none.scaling, none.top_k) == ("", "none", None)


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        ({"crop_mode": "border"}, "crop_mode: expected center, squash, got 'border'"),
        ({"crop_mode": "squash"}, "crop_pct: expected 1 beside crop_mode 'squash', got 0.95"),
        ({"interpolation": "random"}, "interpolation: expected bicubic"),
        ({"input_size": None}, "input_size: expected channels, height and width"),
        ({"crop_pct": "much"}, "crop_pct: expected a number"),
        ({"mean": {"a": 1}}, "mean: "),
    ],
)
def test_what_cannot_be_followed_is_a_sentence(pixels: dict[str, Any], words: str, tmp_path: Path) -> None:
    config = CONFIG | {"pretrained_cfg": {"input_size": [3, 64, 96], **PIXELS, **pixels}}
    with pytest.raises(RecipeError, match=words):
        options_of(tmp_path, config, ("height", "width"))
    assert options_of(tmp_path, config, ("height", "width"), fit="stretch", image_size=64).recipe_source == ""


def test_a_squashed_image_is_stretched(tmp_path: Path) -> None:
    pixels = {**PIXELS, "crop_pct": 1, "crop_mode": "squash"}
    assert options_of(tmp_path, CONFIG | {"pretrained_cfg": pixels}).fit == "stretch"


def test_what_a_file_leaves_out_is_as_in_timm(tmp_path: Path) -> None:
    wrapped = {"architectures": ["TimmWrapperForImageClassification"], "pretrained_cfg": {"mean": 0.5, "std": None}}
    options = options_of(tmp_path, wrapped)
    assert (options.resize, options.fit, options.crop_pct) == ("bicubic", "crop", 0.875)
    assert (options.mean, options.std) == ((0.5,), (0.229, 0.224, 0.225))
