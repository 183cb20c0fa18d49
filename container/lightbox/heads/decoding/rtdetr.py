"""Objects as of the predictor of Ultralytics' RT-DETR, which suppresses nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightbox.heads.decoding.boxes import as_integers, best, corners, most
from lightbox.heads.objects import Float32, Objects
from lightbox.heads.rtdetr import OF_BOX, OF_FOUND
from lightbox.model.options import ModelOptions


def objects(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of each row: [Q, 4+C], or, in newer exports, [K, 6] with a score and the number of a class."""
    (output,) = outputs.values()
    found = []
    for row in output:
        places = corners(row[:, :OF_BOX]) * np.array(size * 2, np.float32)
        chances, numbers = row[:, OF_BOX:], row[:, OF_FOUND - 1 : OF_FOUND]
        if row.shape[1] == OF_FOUND and (numbers == np.floor(numbers)).all():  # probabilities of 2 classes are not
            one = Objects(as_integers(numbers[:, 0]), chances[:, 0], places)
        else:
            classes = chances.argmax(axis=1) if chances.size else np.zeros(len(chances), np.int64)
            one = Objects(classes, chances.max(axis=1, initial=0), places)
        found.append(best(one, options).chosen(slice(most(options))))
    return found
