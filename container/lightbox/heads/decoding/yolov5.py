"""Objects as of the ``non_max_suppression`` of YOLOv5 and YOLOX."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightbox.heads.decoding.boxes import best, corners, without_overlaps
from lightbox.heads.objects import Float32, Objects
from lightbox.heads.yolov5 import OF_BOX
from lightbox.model.options import ModelOptions


def objects(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of each row: [A, 5+C], in pixels of the input."""
    (output,) = outputs.values()
    found = []
    for row in output:
        passed = row[row[:, OF_BOX - 1] > options.score_threshold]  # few of many: no class is likelier than its box
        chances = passed[:, OF_BOX:] * passed[:, OF_BOX - 1 : OF_BOX]
        classes = chances.argmax(axis=1) if chances.size else np.zeros(len(chances), np.int64)
        one = best(Objects(classes, chances.max(axis=1, initial=0), corners(passed[:, : OF_BOX - 1])), options)
        found.append(one.chosen(without_overlaps(one, options)))
    return found
