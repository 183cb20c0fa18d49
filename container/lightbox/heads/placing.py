"""Objects of a model's input in pixels of the image, and the parts of each for a response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from lightbox.base.lazy_numpy import np
from lightbox.heads.masks import Part, parts_of
from lightbox.heads.objects import Float32, Objects
from lightbox.heads.rotated_boxes import corners_of, enclosing
from lightbox.images.preparation import Placed, Placement, Size
from lightbox.model_runtime.deadline import check_deadline

MaskOf: TypeAlias = Callable[[int, list[Part], Size], Any]
"""Makes of an object's class and mask, in an image of a size, what a response holds."""


class Shown(NamedTuple):
    """Objects in pixels of an image of a size, the best first."""

    size: Size
    objects: Objects
    corners: Float32 | None = None
    """[K, 4, 2], of rotated boxes."""
    masks: Sequence[Any] | None = None
    """As ``mask_of`` makes them."""


def shown(objects: Objects, size: Size, placed: Placed | None, mask_of: MaskOf) -> Shown:
    """Return the objects of an input of a size that are in its image; all, in pixels of the input, if it has none."""
    points, corners = objects.keypoints, None
    if placed is not None:
        boxes = placed.in_image(objects.boxes)
        if objects.rotated is not None:
            turned = objects.rotated.copy()
            turned[:, :2] = placed.points_in_image(turned[:, :2])
            turned[:, 2:4] *= placed.scale
            objects = objects._replace(rotated=turned)
            low, high = np.array(placed.origin * 2), np.add(placed.origin, placed.size)
            boxes = enclosing(corners_of(turned)).clip(low, np.tile(high, 2)).astype(np.float32)
        if points is not None:
            points = np.concatenate([placed.points_in_image(points[..., :2], clipped=True), points[..., 2:]], axis=-1)
        seen = np.flatnonzero((boxes[:, 2:] > boxes[:, :2]).all(axis=1))  # not in the padding or the cut-off part
        objects = objects._replace(boxes=boxes, keypoints=points).chosen(seen)
    placed = placed or Placed(size, Placement(size))
    if objects.rotated is not None:
        corners = corners_of(objects.rotated)
    if objects.masks is None:
        return Shown(placed.whole or placed.size, objects, corners)
    return _with_masks(Shown(placed.whole or placed.size, objects, corners), size, placed, mask_of)


def _with_masks(found: Shown, size: Size, placed: Placed, mask_of: MaskOf) -> Shown:
    """Return objects with their masks, without those whose mask the box has cut to nothing."""
    assert found.objects.masks is not None
    masks, seen, classes = list[Any](), list[int](), found.objects.classes.tolist()
    for number, parts in enumerate(parts_of(found.objects.masks, found.objects.boxes, size, placed)):
        check_deadline()  # a mask may have all pixels of a large photo
        if found.objects.masks.are_placed or any(part.pixels.any() for part in parts):
            seen.append(number)
            masks.append(mask_of(classes[number], parts, found.size))
    return found._replace(objects=found.objects.chosen(np.array(seen, np.int64)), masks=masks)
