"""Masks in pixels of an image: maps of the model's input are enlarged and cut to their boxes, as Ultralytics does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from lightbox.base.lazy_numpy import np
from lightbox.heads.objects import Float32, Int64, Masks
from lightbox.images.preparation import Placed, Placement, Size

if TYPE_CHECKING:
    import numpy.typing as npt

_PIXELS_AT_ONCE = 1 << 22
_PLACED = 28
"""Pixels of a mask of torchvision's along a side of its box."""


class Part(NamedTuple):
    """Some columns of a mask, of the height of its box: ``pixels`` [columns, rows], from a pixel of the image on."""

    left: int
    top: int
    pixels: npt.NDArray[np.bool_]


class _Axis(NamedTuple):
    """The share of each pixel of a map in each pixel of the image, along an axis."""

    shares: Float32
    """[pixels of the image, pixels of the map]"""
    first: Int64
    last: Int64
    """The first and last pixel of the map with a share, for each of the image."""

    def between(self, start: int, end: int) -> tuple[Float32, slice]:
        """Return the shares in the pixels from ``start`` to ``end``, and the pixels of the map that have some."""
        taken = slice(self.first[start], self.last[end - 1] + 1) if start < end else slice(0, 0)
        return self.shares[start:end, taken], taken


def parts_of(masks: Masks, boxes: Float32, size: Size, placed: Placed) -> Iterator[list[Part]]:
    """Yield the parts of each object's mask. ``boxes`` [K, 4] are in pixels of the image, ``size`` is the input's."""
    if masks.are_placed:
        boxes = _enlarged(boxes)
    within = np.ceil(boxes - np.array(placed.origin * 2, np.float32)).clip(0, placed.size * 2)
    ends, maps = within.astype(np.int64), masks.maps
    if masks.are_placed and placed.placement == Placement(placed.size) and maps.shape[:0:-1] == placed.size:
        x, y = placed.origin
        for one, (left, top, right, bottom) in zip(maps, ends.tolist(), strict=True):
            seen = one[top:bottom, left:right].T
            yield [Part(x + left, y + top, seen > masks.threshold)]
        return
    detail = _detail(maps.shape[2], maps.shape[1], size, placed)
    across, down = (_axis(axis, maps.shape[2 - axis], size, placed, detail) for axis in (0, 1))
    for number, (left, top, right, bottom) in enumerate(ends.tolist()):
        (columns, seen_across), (rows, seen_down) = across.between(left, right), down.between(top, bottom)
        if masks.coefficients is None:
            seen = maps[number, seen_down, seen_across]
        else:
            seen = np.tensordot(masks.coefficients[number], maps[:, seen_down, seen_across], 1)
        turned = (rows @ seen).T
        step = max(1, _PIXELS_AT_ONCE // max(1, len(rows)))
        x, y = placed.origin
        yield [
            Part(x + left + at, y + top, columns[at : at + step] @ turned > masks.threshold)
            for at in range(0, len(columns), step)
        ]


def _enlarged(boxes: Float32) -> Float32:
    """Return boxes with what a mask of 28 pixels, which rounding and a border of one enlarge, may pass them by."""
    more = np.tile((boxes[:, 2:] - boxes[:, :2]) / np.float32(_PLACED) + np.float32(1), 2)
    more[:, :2] *= -1
    return boxes + more


def run_lengths(parts: list[Part], size: Size) -> Int64:
    """Return the run lengths of a mask in an image of a size as COCO counts them: by column, the background first."""
    bounds = [np.zeros(0, np.int64)]
    for left, top, pixels in parts:
        edges = np.zeros((len(pixels), pixels.shape[1] + 2), np.bool_)
        edges[:, 1:-1] = pixels
        flat = edges.reshape(-1)
        column, row = np.divmod(np.flatnonzero(flat[1:] != flat[:-1]), edges.shape[1])
        bounds.append((left + column) * size[1] + top + row)
    places = np.concatenate(bounds)
    # A mask that reaches from the bottom of a column to the top of the next has an end and a start at one place.
    joined = np.append(False, places[1:] == places[:-1])
    places = places[~(joined | np.append(joined[1:], False))] if len(places) else places
    lengths = np.diff(places, prepend=0, append=size[0] * size[1])
    return lengths if lengths[-1] or len(lengths) == 1 else lengths[:-1]  # a mask may reach the last pixel


def _detail(width: int, height: int, size: Size, placed: Placed) -> int | None:
    """Return by how much maps are enlarged before the padding is cut off: the least, of 1, 2 and so on up to the pixels
    of the input for each of a map, that leaves whole pixels. None if there is none."""
    ratio = size[0] // width
    if size != (width * ratio, height * ratio):
        return None
    ends = (*placed.placement.size, placed.placement.left, placed.placement.top)
    return next(
        step for step in range(1, ratio + 1) if not any(end * step % ratio for end in ends) and not ratio % step
    )


def _axis(axis: int, count: int, size: Size, placed: Placed, detail: int | None) -> _Axis:
    pixels = np.arange(placed.size[axis])
    (_, left, top), ratio = placed.placement, count / size[axis]
    inside, offset = placed.placement.size[axis] * ratio, (left, top)[axis] * ratio
    if detail is None:
        steps = [((pixels + 0.5) * inside / len(pixels) + offset - 0.5, np.ones(len(pixels)))]
    else:
        whole = round(inside * detail)
        places = ((pixels + 0.5) * whole / len(pixels) - 0.5).clip(0, whole - 1)
        lower, rest = np.floor(places), places % 1
        steps = [
            (((lower + more).clip(0, whole - 1) + round(offset * detail) + 0.5) / detail - 0.5, share)
            for more, share in ((0, 1 - rest), (1, rest))
        ]
    shares = np.zeros((len(pixels), count), np.float32)
    first, last = np.full(len(pixels), count), np.zeros(len(pixels), np.int64)
    for place, share in steps:
        near = place.clip(0, count - 1)
        lower, rest = near.astype(np.int64), near % 1
        upper = np.minimum(lower + 1, count - 1)
        shares[pixels, lower] += share * (1 - rest)
        shares[pixels, upper] += share * rest
        first, last = np.minimum(first, lower), np.maximum(last, upper)
    return _Axis(shares, first, last)


def polygons(parts: list[Part]) -> list[Int64]:
    """Return the outlines of a mask as COCO writes them, x and y in turn: each surrounds pixels that touch by a side.

    They go along the edges of pixels; holes have none, as polygons of COCO cannot say them.
    """
    left, top = min(part.left for part in parts), parts[0].top
    pixels = np.concatenate([part.pixels for part in parts])
    framed = np.pad(pixels, 1)
    # Each edge between a pixel of the mask and another one leads from a corner of the grid to the next.
    following: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for axis, begins, step in (
        (1, framed[1:-1, 1:] & ~framed[1:-1, :-1], (1, 0)),
        (1, ~framed[1:-1, 1:] & framed[1:-1, :-1], (-1, 0)),
        (0, framed[1:, 1:-1] & ~framed[:-1, 1:-1], (0, -1)),
        (0, ~framed[1:, 1:-1] & framed[:-1, 1:-1], (0, 1)),
    ):
        for x, y in np.argwhere(begins).tolist():
            at = (x + (step[0] < 0), y) if axis else (x, y + (step[1] < 0))
            following.setdefault(at, []).append(step)
    found = []
    while following:
        start = at = next(iter(following))
        outline, last = list[int](), (0, 0)
        while at in following:
            steps = following[at]
            # Where two pixels touch by a corner alone, the outline turns right, and stays with its pixel.
            step = steps.pop(next((n for n, one in enumerate(steps) if one == (-last[1], last[0])), 0))
            if not steps:
                del following[at]
            if step != last:
                outline += [left + at[0], top + at[1]]
            at, last = (at[0] + step[0], at[1] + step[1]), step
            if at == start:
                break
        across, down = np.array(outline, np.int64).reshape(-1, 2).T
        if across @ np.roll(down, -1) > down @ np.roll(across, -1):  # those of holes go the other way round
            found.append(np.array(outline, np.int64))
    return found
