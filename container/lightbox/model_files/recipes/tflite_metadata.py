"""Reads the TFLite Metadata of LiteRT files, as Model Maker and MediaPipe write them.

Pixels are those of the Task Library and of MediaPipe's tasks, which stretch an image and take its scores as they are.
"""

from __future__ import annotations

from typing import Any

from lightbox.model.options import Recipe
from lightbox.model_files.recipes.files import ModelFiles, class_names, parsed
from lightbox.model_runtime.formats.litert import LABELS, MEAN, QUANTIZED, STD


def read(files: ModelFiles) -> Recipe | None:
    """Return the recipe of a file whose metadata have the numbers of its pixels."""
    notes, image, outputs = files.signature.notes, files.image, files.signature.outputs
    if MEAN not in notes or image is None:
        return None
    source = f"the metadata of {files.path.name} (LiteRT)"
    options: dict[str, Any] = {"fit": "stretch", "resize": "opencv_bilinear", "scaling": "none"}
    if "float" in image.dtype:  # else the graph has the numbers
        options |= {
            key: tuple(parsed(_numbers, notes[note], source, key)) for key, note in (("mean", MEAN), ("std", STD))
        }
    name = next((name for name in outputs if f"{LABELS}{name}" in notes), None)
    is_quantized = name is not None and "int" in outputs[name].dtype and f"{QUANTIZED}{name}" in notes
    if name is None or not (is_quantized or "float" in outputs[name].dtype):
        return Recipe(options, source, "an image, whose outputs are returned as tensors")
    if is_quantized:
        options["dequantize"] = tuple(parsed(_numbers, notes[f"{QUANTIZED}{name}"], source, "quantization"))
    labels = class_names(notes[f"{LABELS}{name}"].rstrip().splitlines(), source, "labels")
    options |= {"labels": labels, "activation": "none", "top_k": 5}
    options |= {"outputs": (name,)} if len(outputs) > 1 else {}
    return Recipe(options, source, "classes")


def _numbers(text: str) -> list[float]:
    return [float(one) for one in text.split()]
