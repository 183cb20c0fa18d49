"""Objects as of the graphs of TensorFlow's Object Detection API."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightbox.base.errors import ModelFailed
from lightbox.heads.decoding.boxes import as_integers, best, most
from lightbox.heads.objects import Float32, Objects
from lightbox.heads.tensorflow import BOXES, CLASSES, NUMBER, SCORES, plainly
from lightbox.model.options import ModelOptions


def objects(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of each row: boxes [K, 4] in fractions, the upper side first, as many as the number says."""
    found = plainly(outputs)
    (boxes, classes, scores), number = (found[name] for name in (BOXES, CLASSES, SCORES)), found.get(NUMBER)
    rows, slots = scores.shape
    counts = np.full(rows, slots, np.float32) if number is None else number.reshape(-1)
    if len(counts) != rows:
        raise ModelFailed(
            f"detections: expected {NUMBER} of [{rows}], one for each picture; the model gives {len(counts)}"
        )
    scale, rows_found = np.array(size * 2, np.float32), list[Objects]()
    for index, count in enumerate(as_integers(counts.clip(0, slots))):
        seen = slice(max(0, count))
        places = boxes[index][seen, [1, 0, 3, 2]] * scale
        row = Objects(as_integers(classes[index][seen]), scores[index][seen], places)
        rows_found.append(best(row, options).chosen(slice(most(options))))
    return rows_found
