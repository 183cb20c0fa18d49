"""How objects are made of the outputs of a form, with numpy: a module for each form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from lightbox.base.errors import ModelFailed
from lightbox.heads import shapes_problem
from lightbox.heads.decoding import detr, mmdet, rtdetr, tensorflow, torchvision, ultralytics, yolov5
from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import DetectionsName, ModelOptions
from lightbox.model.spec import Array

Decoder: TypeAlias = Callable[[Mapping[str, Float32], tuple[int, int], ModelOptions], list[Objects]]
"""Returns the objects of each row of outputs that fit, for an input of a size: width, height.

Raises ModelFailed for numbers that are of no such form.
"""
DECODERS: Mapping[DetectionsName, Decoder] = {
    "ultralytics": ultralytics.boxes,
    "ultralytics-segment": ultralytics.segments,
    "ultralytics-pose": ultralytics.poses,
    "ultralytics-obb": ultralytics.rotated_boxes,
    "ultralytics-v5": yolov5.objects,
    "detr": detr.objects,
    "rtdetr": rtdetr.objects,
    "mmdet": mmdet.objects,
    "tf": tensorflow.objects,
    **dict.fromkeys(("torchvision", "torchvision-segment", "torchvision-pose"), torchvision.objects),
}
"""Decoders, by the option ``detections``."""


def find_objects(outputs: Mapping[str, Array], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of each row of a batch, whose images have a ``size``: width, height.

    Raises ModelFailed for outputs of another form.
    """
    assert options.detections is not None
    numbers = {
        name: array.astype(np.float32, copy=False) for name, array in outputs.items() if array.dtype.kind in "iuf"
    }
    shapes = {name: array.shape for name, array in outputs.items()}
    if problem := shapes_problem(options, shapes, len(numbers) < len(outputs)):
        raise ModelFailed(f"detections: {problem}")
    with np.errstate(all="ignore"):  # NaN is not an object
        return DECODERS[options.detections](numbers, size, options)
