"""The further numbers of a box become masks, keypoints and angles; tests/exports compares with the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightbox.base.errors import ModelFailed
from lightbox.heads import find_objects
from lightbox.heads.objects import Objects
from lightbox.model.options import ModelOptions

SIZE = (64, 32)


def anchors(*rows: list[float], count: int = 40) -> Any:
    """Return [1, N, count]: boxes before suppression, and others without a score."""
    none = [50.0, 25, 4, 4, *np.zeros(len(rows[0]) - 4)]
    return np.array([[*rows, *[none] * (count - len(rows))]], np.float32).transpose(0, 2, 1)


def found(form: Any, outputs: dict[str, Any], **options: Any) -> Objects:
    (objects,) = find_objects(outputs, SIZE, ModelOptions(detections=form, **options))
    return objects


def points(of: Any, outputs: dict[str, Any]) -> Any:
    return found("ultralytics-pose", outputs, keypoints=of).keypoints


def test_keypoints_of_a_box_stay_with_it_and_are_fractions_if_it_is() -> None:
    near, far = [10, 10, 8, 8, 0.5, 1, 2, 0.9, 3, 4, 0.1], [30, 20, 8, 8, 0.8, 5, 6, 0.7, 7, 8, 0.2]
    expected = np.array([[[5, 6, 0.7], [7, 8, 0.2]], [[1, 2, 0.9], [3, 4, 0.1]]], np.float32)
    np.testing.assert_allclose(points((2, 3), {"y": anchors(near, far)}), expected)
    ended = np.array([[[6, 6, 14, 14, 0.5, 0, *near[5:]], [26, 16, 34, 24, 0.8, 0, *far[5:]], [0] * 12]], np.float32)
    np.testing.assert_allclose(points((2, 3), {"y": ended}), expected)
    ended[..., [0, 2, 6, 9]] /= SIZE[0]
    ended[..., [1, 3, 7, 10]] /= SIZE[1]
    np.testing.assert_allclose(points((2, 3), {"y": ended}), expected, rtol=1e-5)


def test_coefficients_of_masks_stay_with_their_box() -> None:
    boxes = anchors([10, 10, 8, 8, 0.5, 1, -1], [10, 11, 8, 8, 0.6, 2, -2], [30, 20, 8, 8, 0.8, 3, -3])
    maps = np.ones((1, 2, 8, 16), np.float32)
    objects = found("ultralytics-segment", {"maps": maps, "boxes": boxes})
    assert objects.masks is not None
    assert objects.masks.coefficients is not None
    np.testing.assert_allclose(objects.masks.coefficients, [[3, -3], [2, -2]])
    assert objects.masks.maps.shape == (2, 8, 16)
    last = {"maps": maps.transpose(0, 2, 3, 1), "boxes": boxes}
    again = found("ultralytics-segment", last, labels=("thing",))
    assert again.masks is not None
    assert again.masks.maps.shape == (2, 8, 16)


def test_the_box_of_a_rotated_one_encloses_it() -> None:
    quarter = np.pi / 2
    objects = found("ultralytics-obb", {"y": anchors([20, 10, 16, 4, 0.1, 0.9, quarter], [20, 10, 16, 4, 0.8, 0.2, 0])})
    np.testing.assert_allclose(objects.boxes, [[18, 2, 22, 18], [12, 8, 28, 12]], atol=1e-4)
    assert objects.classes.tolist() == [1, 0]
    ended = np.array([[[20, 10, 16, 4, 0.9, 1, quarter], [0] * 7]], np.float32)
    np.testing.assert_allclose(found("ultralytics-obb", {"y": ended}).boxes, [[18, 2, 22, 18]], atol=1e-4)


@pytest.mark.parametrize("form", ["ultralytics-obb", "ultralytics"])
def test_numbers_that_are_none_are_no_object(form: Any) -> None:
    nan = float("nan")
    output = anchors([20, 10, 4, 4, 0.9, nan], [20, nan, 4, 4, 0.8, 0], [nan, 10, 4, 4, 0.7, 0.1])
    assert len(found(form, {"y": output}).scores) == 0
    with pytest.raises(ModelFailed, match=f"expected scores of 0 to 1 for {form!r}"):
        found(form, {"y": anchors([20, 10, 4, 4, 3, 0])})
