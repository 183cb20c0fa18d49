"""Objects as of transformers' ``post_process_object_detection``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lightbox.base.errors import ModelFailed
from lightbox.heads.activation import activated
from lightbox.heads.decoding.boxes import best, corners, most
from lightbox.heads.detr import names_of
from lightbox.heads.form import SIGMOIDS
from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import ModelOptions

_OF_ROUNDING = 0.01


def objects(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return the objects of each row: logits [Q, C+1] and boxes [Q, 4], fractions of the input."""
    names = names_of({name: array.shape for name, array in outputs.items()})
    assert names is not None, "they fit"
    logits, boxes = (outputs[name] for name in names)
    by_sigmoids = options.activation is None and 2 * np.count_nonzero(_are_of_sigmoids(logits))
    if by_sigmoids and by_sigmoids > logits[..., 0].size:
        raise ModelFailed(f"detections: most queries have negative logits only; {SIGMOIDS}")
    found = (_objects(*row, size, options) for row in zip(logits, boxes, strict=True))
    return [best(row, options).chosen(slice(most(options))) for row in found]


def _are_of_sigmoids(logits: Float32) -> npt.NDArray[np.bool_]:
    """Return for each query whether its logits say that it is nothing at all, which is a class of a softmax: all are
    negative, and no logarithms of probabilities."""
    found: npt.NDArray[np.bool_] = (logits.max(axis=-1) < 0) & (np.abs(np.exp(logits).sum(axis=-1) - 1) > _OF_ROUNDING)
    return found


def _objects(logits: Float32, boxes: Float32, size: tuple[int, int], options: ModelOptions) -> Objects:
    chances = activated(logits, options.activation or "softmax").astype(np.float32, copy=False)
    places = corners(boxes) * np.array(size * 2, np.float32)
    if options.activation == "sigmoid":  # a query may be of several classes, but there are no more objects than queries
        queries, classes = np.nonzero(chances > options.score_threshold)
        found = Objects(classes, chances[queries, classes], places[queries])
        return found.chosen((-found.scores).argsort(kind="stable")[: len(boxes)])
    chances = chances[:, :-1]  # the last class is "no object"
    classes = chances.argmax(axis=1) if chances.size else np.zeros(len(chances), np.int64)
    return Objects(classes, chances.max(axis=1, initial=0), places)
