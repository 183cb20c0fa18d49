"""A selection of objects has the same ones of each part, with maps of their own and with common ones."""

from __future__ import annotations

import numpy as np
import pytest

from lightbox.heads.objects import Masks, Objects


def objects(masks: Masks | None) -> Objects:
    """Three objects whose numbers tell which is which."""
    each = np.arange(3, dtype=np.float32)
    parts = (np.repeat(each, width).reshape(3, width) for width in (4, 6, 5))
    boxes, points, rotated = parts
    return Objects(np.arange(3), each, boxes, masks, points.reshape(3, 2, 3), rotated)


@pytest.mark.parametrize("which", [np.array([2, 0]), slice(2, None, -2)], ids=["indices", "slice"])
def test_a_selection_has_the_same_objects_of_each_part(which: np.ndarray | slice) -> None:
    own = Masks(np.arange(3, dtype=np.float32).reshape(3, 1, 1))
    common = Masks(np.ones((2, 1, 1), np.float32), np.arange(6, dtype=np.float32).reshape(3, 2))
    selected = objects(own).chosen(which)
    parts = (selected.classes, selected.scores, selected.boxes, selected.keypoints, selected.rotated)
    assert [part.reshape(2, -1)[:, 0].tolist() for part in parts if part is not None] == [[2, 0]] * 5
    assert selected.masks is not None
    assert selected.masks.maps.ravel().tolist() == [2, 0]
    of_common = objects(common).chosen(which).masks
    assert of_common is not None
    assert of_common.coefficients is not None
    assert of_common.coefficients.tolist() == [[4, 5], [0, 1]]
    assert of_common.maps.shape == (2, 1, 1)


def test_parts_that_a_form_has_not_stay_absent() -> None:
    selected = objects(None)._replace(keypoints=None, rotated=None).chosen(np.array([1]))
    assert (selected.masks, selected.keypoints, selected.rotated) == (None, None, None)
