"""Objects as of Ultralytics' ``non_max_suppression``, with what its predictors make of the further numbers of a box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from lightbox.base.errors import ModelFailed
from lightbox.heads.activation import activated
from lightbox.heads.decoding.boxes import as_integers, best, corners, most, without_overlaps
from lightbox.heads.decoding.rotated_boxes import corners_of, enclosing, without_rotated_overlaps
from lightbox.heads.objects import Float32, Masks, Objects
from lightbox.heads.ultralytics import OF_BOX, OF_FOUND, coefficients_of, is_end_to_end
from lightbox.model.options import ModelOptions

_FRACTIONS = 4.0
"""Box centers that are all below this are fractions of the input: in pixels they would all lie in its corner."""
_MOST_SCORE = 1.1
"""Largest probability, with a margin for float16 and rounding."""


class _Proposals(NamedTuple):
    """The boxes of one image with a score above the threshold, in pixels of the input."""

    found: Objects
    places: Float32
    """[K, 4]: the boxes as the output has them."""
    more: Float32
    """[K, M]: the further numbers of each."""
    scale: Float32
    """The width and height of what a 1 of the output is."""
    is_final: bool
    """Whether overlaps have been left out already."""


def boxes(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return plain boxes of each row: [4+C, A] before suppression, or [K, 6]."""
    (output,) = outputs.values()
    return [_without_overlaps(row.found, row, options) for row in _rows(output, 0, size, options)]


def segments(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return boxes with masks of each row: [4+C+M, A] or [K, 6+M] with coefficients of [M, height, width]."""
    (output,), (maps,) = ([array for array in outputs.values() if array.ndim == rank] for rank in (3, 4))
    count = coefficients_of({name: array.shape for name, array in outputs.items()}, options)
    assert count is not None, "shapes of arrays are known"
    if maps.shape[1] != count:
        maps = maps.transpose(0, 3, 1, 2)
    rows = zip(_rows(output, count, size, options), maps, strict=True)
    return [_without_overlaps(row.found._replace(masks=Masks(own, row.more)), row, options) for row, own in rows]


def poses(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return boxes with keypoints of each row: [4+C+P*D, A] or [K, 6+P*D]."""
    assert options.keypoints is not None, "it fits"
    (output,), (count, numbers) = outputs.values(), options.keypoints
    found = []
    for row in _rows(output, count * numbers, size, options):
        points = row.more.reshape(-1, count, numbers).copy()
        points[..., :2] *= row.scale
        found.append(_without_overlaps(row.found._replace(keypoints=points), row, options))
    return found


def rotated_boxes(outputs: Mapping[str, Float32], size: tuple[int, int], options: ModelOptions) -> list[Objects]:
    """Return rotated boxes of each row: [4+C+1, A] or [K, 7], the angle last."""
    (output,) = outputs.values()
    found = []
    for row in _rows(output, 1, size, options, has_centers=True):
        turned = np.concatenate([row.places, row.more], axis=1)
        objects = best(row.found._replace(boxes=enclosing(corners_of(turned)), rotated=turned), options)
        if objects.rotated is not None and not row.is_final:
            objects = objects.chosen(without_rotated_overlaps(objects.rotated, objects.classes, options))
        found.append(objects.chosen(slice(most(options))))
    return found


def _without_overlaps(found: Objects, row: _Proposals, options: ModelOptions) -> Objects:
    objects = best(found, options)
    return objects.chosen(slice(most(options)) if row.is_final else without_overlaps(objects, options))


def _rows(
    output: Float32, more: int, size: tuple[int, int], options: ModelOptions, has_centers: bool = False
) -> Iterator[_Proposals]:
    """Yield the proposals of each row, with ``more`` numbers each; ``has_centers`` of end-to-end rows."""
    is_final = is_end_to_end(output.shape, more)
    for row in output:
        yield _end_to_end(row, size, options, has_centers) if is_final else _raw(row, more, size, options)


def _end_to_end(row: Float32, size: tuple[int, int], options: ModelOptions, has_centers: bool) -> _Proposals:
    scores = row[:, 4]
    if options.activation == "sigmoid":
        scores = activated(scores, "sigmoid").astype(np.float32, copy=False)
    passed = scores > options.score_threshold
    scale = _scale(row[:, :OF_BOX], size)
    places = row[passed, :OF_BOX] * np.tile(scale, 2)
    turned = np.flatnonzero((places[:, 2:] < places[:, :2]).any(axis=1))
    if not has_centers and 2 * len(turned) > len(places):
        raise ModelFailed("detections: expected corners of boxes for 'ultralytics'; the model gives centers and sizes")
    found = Objects(as_integers(row[passed, 5]), scores[passed], places)
    return _Proposals(found, places, row[passed, OF_FOUND:], scale, is_final=True)


def _raw(row: Float32, more: int, size: tuple[int, int], options: ModelOptions) -> _Proposals:
    end = len(row) - more
    chances = activated(row[OF_BOX:end].T, options.activation).T
    scores = chances.max(axis=0, initial=0)
    least, largest = chances.min(initial=0), scores.max(initial=0)
    if largest > _MOST_SCORE or least < 1 - _MOST_SCORE:
        raise ModelFailed(
            f"detections: expected scores of 0 to 1 for {options.detections!r}, as of a detector's classes; the model "
            f"gives {largest if largest > _MOST_SCORE else least:.3g}; if they are logits, set the option activation"
        )
    passed = np.flatnonzero(scores > options.score_threshold)  # few of many
    scale = _scale(row[:2], size)
    places = row[:OF_BOX, passed].T * np.tile(scale, 2)
    found = Objects(chances[:, passed].argmax(axis=0), scores[passed].astype(np.float32, copy=False), corners(places))
    return _Proposals(found, places, row[end:, passed].T, scale, is_final=False)


def _scale(places: Float32, size: tuple[int, int]) -> Float32:
    """Return what a 1 of the output is. Ultralytics' exports for LiteRT have fractions of the input, others pixels."""
    are_fractions = not places.size or places.max() <= _FRACTIONS
    return np.array(size if are_fractions else (1, 1), np.float32)
