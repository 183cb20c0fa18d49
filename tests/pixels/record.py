"""Records what torchvision, timm and Ultralytics make of pictures by their own preprocessing, a file for each.

python3.11 -m venv build/pixels_venv
build/pixels_venv/bin/pip install -r requirements/pixels.in
PYTHONPATH=tests build/pixels_venv/bin/python tests/pixels/record.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from pixels.pictures import SIZES, picture

# The build of torchvision for GPUs registers operators that torch's build for CPUs has not. No transform needs them.
with patch("torch.library.register_fake", lambda name: lambda function: function):
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms._presets import ImageClassification

from timm.data import create_transform
from ultralytics.data.augment import LetterBox

FOLDER = Path(__file__).parent
SMALL = [name for name in SIZES if name != "photo"]
Case = tuple[str, dict[str, Any], tuple[int, int], str, Any]
"""Name, options beside the preset, width and height of the input, picture, and float32 [3, height, width]."""


def of_torchvision() -> list[Case]:
    bicubic = InterpolationMode.BICUBIC
    ways: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
        ("224", {}, {"crop_size": 224, "resize_size": 256}, ["photo"]),
        ("32", {}, {"crop_size": 32, "resize_size": 36}, SMALL),
        ("33", {"resize_shorter": 38}, {"crop_size": 33, "resize_size": 38}, SMALL),
        (
            "bicubic 30",
            {"resize_shorter": 32, "resize": "bicubic"},
            {"crop_size": 30, "resize_size": 32, "interpolation": bicubic},
            SMALL,
        ),
    ]
    return [
        (name, options, (way["crop_size"],) * 2, source, ImageClassification(**way)(picture(source)))
        for name, options, way, sources in ways
        for source in sources
    ]


def of_timm() -> list[Case]:
    half = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    bilinear = {"resize": "bilinear"}
    ways: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
        ("224", {}, {"input_size": (3, 224, 224), "crop_pct": 0.875, "interpolation": "bicubic"}, ["photo"]),
        ("40", {}, {"input_size": (3, 40, 40), "crop_pct": 0.875, "interpolation": "bicubic"}, SMALL),
        (
            "half 0.95",
            {"crop_pct": 0.95} | half,
            {"input_size": (3, 37, 37), "crop_pct": 0.95, "interpolation": "bicubic"} | half,
            SMALL,
        ),
        ("1.0", {"crop_pct": 1.0}, {"input_size": (3, 32, 32), "crop_pct": 1.0, "interpolation": "bicubic"}, SMALL),
        (
            "wide",
            {"crop_pct": 0.9} | bilinear,
            {"input_size": (3, 24, 40), "crop_pct": 0.9, "interpolation": "bilinear"},
            SMALL,
        ),
    ]
    return [
        (name, options, way["input_size"][:0:-1], source, create_transform(**way, is_training=False)(picture(source)))
        for name, options, way, sources in ways
        for source in sources
    ]


def of_ultralytics() -> list[Case]:
    found: list[Case] = []
    for width, height, sources in ((320, 320, ["photo"]), (64, 64, SMALL), (63, 63, SMALL), (96, 56, SMALL)):
        for source in sources:
            bgr = np.asarray(picture(source))[:, :, ::-1]  # as cv2 reads it
            made = LetterBox((height, width), auto=False, stride=32)(image=bgr)
            # As its predictor goes on: BGR to RGB, channels first, 0..1.
            tensor = np.ascontiguousarray(made[:, :, ::-1].transpose(2, 0, 1)).astype(np.float32) / 255
            found.append((f"{width}x{height}", {}, (width, height), source, tensor))
    return found


def write(preset: str, packages: list[str], cases: list[Case]) -> None:
    """Write the cases of a preset: tensors, and beside them what made them."""
    reply = [
        {"name": name, "options": {"preset": preset} | options, "size": size, "picture": source}
        for name, options, size, source, _ in cases
    ]
    versions = {name: version(name) for name in packages}
    arrays: dict[str, Any] = {f"{number}": np.asarray(tensor, np.float32) for number, (*_, tensor) in enumerate(cases)}
    arrays["about"] = np.array(json.dumps({"versions": versions, "cases": reply}))
    np.savez_compressed(FOLDER / f"{preset}.npz", **arrays)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("torchvision", ["torch", "torchvision", "pillow"], of_torchvision())
    write("timm", ["timm", "torch", "torchvision", "pillow"], of_timm())
    write("ultralytics", ["ultralytics", "opencv-python"], of_ultralytics())
