"""Small model files with what libraries write into them and beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from lightbox.model.options import ResolvedOptions
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import model_options
from lightbox.serving.settings_loading import load_settings
from support.onnx_models import write

Sides = tuple[int | str, int | str]


def write_network(
    file: Path,
    outputs: Mapping[str, np.ndarray[Any, Any]],
    sides: Sides = (64, 64),
    metadata: Mapping[str, str] | None = None,
    dtype: str = "FLOAT",
) -> Path:
    """Write a network that gives ``outputs`` for any picture of [1, 3, height, width]."""
    nodes, constants = [], {}
    for name, value in outputs.items():
        constants[f"{name}_value"] = value.astype(np.float32)
        nodes += [
            helper.make_node("Cast", ["images"], [f"{name}_float"], to=1),
            helper.make_node("ReduceMean", [f"{name}_float"], [f"{name}_mean"], keepdims=0),
            helper.make_node("Mul", [f"{name}_mean", "nothing"], [f"{name}_nothing"]),
            helper.make_node("Add", [f"{name}_value", f"{name}_nothing"], [name]),
        ]
    constants["nothing"] = np.array(0, np.float32)
    given = {name: ("FLOAT", list(value.shape)) for name, value in outputs.items()}
    write(file, nodes, {"images": (dtype, [1, 3, *sides])}, given, constants, metadata=metadata)
    return file


def resolved(
    path: Path, own: Mapping[str, Any] | None = None, code: Sequence[Path] = (), model: ModelOnDisk | None = None
) -> ResolvedOptions:
    """Return the options of a model file, with LIGHTBOX_OPTIONS of ``own``."""
    settings = load_settings({"LIGHTBOX_OPTIONS": json.dumps(own)} if own else {})
    return model_options(model or ModelOnDisk(path.stem, path, unversioned=True), code, settings)


def of_ultralytics(task: str, names: Sequence[str], **more: object) -> dict[str, str]:
    """Return the metadata of an export."""
    notes = {"version": "8.4.190", "stride": 32, "task": task, "imgsz": [64, 64], "names": dict(enumerate(names))}
    return {key: str(value) for key, value in {**notes, **more}.items() if value is not None}
