"""Queries with logits and a box each, as of DETR, RT-DETR, D-FINE and RF-DETR."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from typing_extensions import override

from lightbox.base.errors import ModelFailed
from lightbox.base.lazy_numpy import np
from lightbox.heads.activation import activated
from lightbox.heads.boxes import best, corners, most
from lightbox.heads.form import SIGMOIDS, Form, Shapes, are_of_the_same, can_be
from lightbox.heads.objects import Float32, Objects
from lightbox.model.options import ModelOptions

if TYPE_CHECKING:
    import numpy.typing as npt

_PAIR = 2
_NAMED_AS_BOXES, _NAMED_AS_CLASSES = re.compile("box|det", re.I), re.compile("logit|label|class|cls|score", re.I)
OF_RF_DETR = {"dets", "labels"}
"""The names of RF-DETR's outputs."""
_OF_ROUNDING = 0.01


class Detr(Form):
    """Logits and boxes of the same queries."""

    expected = "two outputs, logits of [N, Q, C+1] and boxes of [N, Q, 4]"

    @override
    def fits(self, shapes: Shapes, options: ModelOptions) -> bool:
        fits = len(shapes) == _PAIR and all(can_be(shape, (None, None, None)) for shape in shapes.values())
        fits = fits and any(can_be(shape, (None, None, 4)) for shape in shapes.values())
        fits = fits and are_of_the_same(list(shapes.values()))
        is_open = any(shape is None or shape[-1] is None for shape in shapes.values())
        return fits and (is_open or names_of(shapes) is not None)

    @override
    def problem(self, outputs: Collection[str], notes: Mapping[str, str], options: ModelOptions) -> str | None:
        if options.activation is None and set(outputs) == OF_RF_DETR:
            return f"the outputs {' and '.join(sorted(outputs))} are those of RF-DETR; {SIGMOIDS}"
        return None

    @override
    def classes(self, shapes: Shapes, options: ModelOptions) -> Collection[int]:
        names = names_of(shapes)
        logits = shapes[names[0]] if names else None
        if logits is None or logits[2] is None:
            return ()
        classes = logits[2] - 1  # with a sigmoid each, none is for "no object"
        return (classes, classes + 1) if options.activation == "sigmoid" else (classes,)

    @override
    def objects(self, outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
        """Return the objects of each row: logits [Q, C+1] and boxes [Q, 4], fractions of the input."""
        names = names_of({name: array.shape for name, array in outputs.items()})
        assert names is not None, "they fit"
        logits, boxes = (outputs[name] for name in names)
        by_sigmoids = options.activation is None and 2 * np.count_nonzero(_are_of_sigmoids(logits))
        if by_sigmoids and by_sigmoids > logits[..., 0].size:
            raise ModelFailed(f"detections: most queries have negative logits only; {SIGMOIDS}")
        found = (_objects(*row, size, options) for row in zip(logits, boxes, strict=True))
        return [best(row, options).chosen(slice(most(options))) for row in found]


def names_of(shapes: Shapes) -> tuple[str, str] | None:
    """Return the names of the logits and of the boxes, which end in a dimension of 4 and, if both do, are named so.

    None if there are no boxes, or if neither shapes nor names tell.
    """
    boxes = [name for name, shape in shapes.items() if can_be(shape, (None, None, 4))]
    if len(boxes) == _PAIR:
        boxes = [name for name in boxes if _NAMED_AS_BOXES.search(name) and not _NAMED_AS_CLASSES.search(name)] or [
            name for name in boxes if not _NAMED_AS_CLASSES.search(name)
        ]
    return (next(name for name in shapes if name != boxes[0]), boxes[0]) if len(boxes) == 1 else None


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
