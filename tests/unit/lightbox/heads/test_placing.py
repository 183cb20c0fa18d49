"""Objects of the input in pixels of the image: in the padding alone they are left out, a cropped part has its place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightbox.heads.masks import Part, polygons
from lightbox.heads.objects import Masks, Objects
from lightbox.heads.placing import Shown, shown
from lightbox.images.preparation import Placed, Placement, Size

SIZE = (64, 64)
PLACED = Placed((32, 16), Placement((64, 32), top=16), origin=(100, 50), whole=(200, 90))
"""A part of an image, of half the input's resolution, above and below which is padding."""
CLASSES, SCORES = np.array([0, 1]), np.array([0.9, 0.8], np.float32)


def objects(*boxes: list[float]) -> Objects:
    return Objects(CLASSES[: len(boxes)], SCORES[: len(boxes)], np.array(boxes, np.float32))


def lists(array: npt.NDArray[np.float32] | None) -> list[object]:
    assert array is not None
    return [[round(float(number), 3) for number in row] for row in array.reshape(-1, array.shape[-1])]


def pixels(number: int, parts: list[Part], size: Size) -> int:
    return sum(int(part.pixels.sum()) for part in parts)


def test_boxes_and_keypoints_end_with_the_image() -> None:
    points = np.array([[[0, 0, 0.5], [20, 40, 0.9]], [[0, 0, 0], [0, 0, 0]]], np.float32)
    found = shown(objects([10, 0, 30, 36], [0, 50, 64, 64])._replace(keypoints=points), SIZE, PLACED, pixels)
    assert (found.size, lists(found.objects.boxes)) == ((200, 90), [[105, 50, 115, 60]])
    assert lists(found.objects.keypoints) == [[100, 50, 0.5], [110, 62, 0.9]]


def test_rotated_boxes_leave_the_image_and_what_encloses_them_does_not() -> None:
    turned = np.array([[10, 16, 40, 4, 0], [10, 4, 4, 4, 0]], np.float32)
    found = shown(objects([0, 0, 9, 9], [0, 0, 9, 9])._replace(rotated=turned), SIZE, PLACED, pixels)
    assert lists(found.objects.boxes) == [[100, 50, 115, 51]]
    assert lists(found.corners) == [[115, 51], [115, 49], [95, 49], [95, 51]]


def test_empty_masks_are_no_objects() -> None:
    maps = np.ones((1, 16, 16), np.float32)
    masked = objects([0, 16, 64, 48], [0, 16, 64, 48])._replace(masks=Masks(maps, np.array([[-1], [1]], np.float32)))
    found = shown(masked, SIZE, PLACED, pixels)
    assert found.objects.classes.tolist() == [1]
    assert found.masks == [32 * 16]
    outlines = shown(masked, SIZE, PLACED, lambda number, parts, size: polygons(parts)).masks
    assert [[outline.tolist() for outline in one] for one in outlines or ()] == [[[100, 50, 132, 50, 132, 66, 100, 66]]]


def test_a_tensor_has_the_objects_of_its_own_pixels() -> None:
    found: Shown = shown(
        objects([-4, 0, 70, 36])._replace(masks=Masks(np.ones((1, 8, 8), np.float32))), SIZE, None, pixels
    )
    assert (found.size, lists(found.objects.boxes)) == (SIZE, [[-4, 0, 70, 36]])
    assert found.masks == [64 * 36]
