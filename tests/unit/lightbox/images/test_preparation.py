"""Placement of a picture in the input tensor, and mapping boxes back to the picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightbox.images.preparation import Fit, Fitting, Placed, Placement, Size
from support.parameters import each

sizes = st.tuples(st.integers(1, 3000), st.integers(1, 3000))


@each(
    ("fitting", "picture", "target", "placement"),
    [
        (Fitting(), (640, 480), (224, 200), Placement((224, 200))),
        (Fitting(Fit.CROP, shorter=256), (640, 480), (224, 224), Placement((341, 256), -58, -16)),
        (Fitting(Fit.CROP, shorter=256), (480, 641), (224, 224), Placement((256, 341), -16, -58)),
        (Fitting(Fit.CROP, shorter=256), (333, 333), (224, 224), Placement((256, 256), -16, -16)),
        (Fitting(Fit.CROP, shorter=257), (257, 259), (224, 224), Placement((257, 259), -16, -18)),  # half to even
        (Fitting(Fit.CROP, crop_pct=0.95), (640, 480), (224, 224), Placement((313, 235), -44, -6)),
        (Fitting(Fit.CROP), (640, 480), (224, 224), Placement((298, 224), -37, 0)),
        (Fitting(Fit.CROP), (640, 480), (320, 160), Placement((320, 240), 0, -40)),
        (Fitting(Fit.LETTERBOX), (640, 480), (320, 320), Placement((320, 240), 0, 40)),
        (Fitting(Fit.LETTERBOX), (100, 33), (64, 64), Placement((64, 21), 0, 21)),  # 21 rows above, 22 below
        (Fitting(Fit.LETTERBOX), (1, 3000), (64, 64), Placement((1, 64), 31, 0)),
        (Fitting(Fit.LETTERBOX), (10, 20), (64, 64), Placement((32, 64), 16, 0)),
    ],
)
def test_places(fitting: Fitting, picture: Size, target: Size, placement: Placement) -> None:
    assert fitting.place(picture, target) == placement


@given(sizes, sizes)
def test_a_crop_covers_the_input_and_a_letterbox_is_in_it(picture: Size, target: Size) -> None:
    (width, height), left, top = Fitting(Fit.CROP).place(picture, target)
    assert left <= 0 <= left + width - target[0]
    assert top <= 0 <= top + height - target[1]
    assert target[0] == width or target[1] == height
    (width, height), left, top = Fitting(Fit.LETTERBOX).place(picture, target)
    assert 0 <= left <= left + width <= target[0]
    assert 0 <= top <= top + height <= target[1]
    assert target[0] == width or target[1] == height


@given(sizes, sizes, st.sampled_from(list(Fit)))
def test_boxes_come_back(picture: Size, target: Size, fit: Fit) -> None:
    """The corners of the resized picture map to the corners of the original. Larger boxes are clipped."""
    placed = Placed(picture, Fitting(fit).place(picture, target), origin=(7, 3))
    (width, height), left, top = placed.placement
    boxes = np.array([[left, top, left + width, top + height], [-1e9, -1e9, 1e9, 1e9]], np.float32)
    whole = [7, 3, 7 + picture[0], 3 + picture[1]]
    np.testing.assert_allclose(placed.in_image(boxes), [whole, whole], rtol=1e-4, atol=0.01)


def test_no_boxes_come_back_as_none() -> None:
    placed = Placed((640, 480), Placement((224, 224)))
    assert placed.in_image(np.zeros((0, 4), np.float32)).shape == (0, 4)


@each(
    ("source", "most", "padded"),
    [
        ((810, 1080), (640, 640), (480, 640)),
        ((1280, 720), (640, 640), (640, 384)),
        ((20, 20), (640, 640), (640, 640)),
        ((2000, 301), (640, 640), (640, 96)),
    ],
)
def test_a_letterbox_may_end_at_the_next_stride(source: Size, most: Size, padded: Size) -> None:
    """As Ultralytics' ``LetterBox(auto=True, stride=32)``."""
    target, placement = Fitting(Fit.LETTERBOX).padded(source, most, 32)
    assert (target, placement.size) == (padded, Fitting(Fit.LETTERBOX).place(source, most).size)


def test_half_a_pixel_may_be_cut_from_the_lower_one() -> None:
    assert Fitting(Fit.CROP, shorter=235).place((640, 427), (224, 224)).top == -6
    assert Fitting(Fit.LETTERBOX, pads_end=True).place((640, 320), (320, 320)) == Placement((320, 160))
    assert Fitting(Fit.CROP, shorter=235, from_lower=True).place((640, 427), (224, 224)).top == -5


def test_boxes_of_a_letterbox_are_divided_by_its_ratio() -> None:
    """As libraries do, whatever its sides are rounded to."""
    source, target = (500, 333), (96, 96)
    for rounds_down, height in ((False, 64), (True, 63)):
        fitting = Fitting(Fit.LETTERBOX, pads_end=True, rounds_down=rounds_down)
        placed = Placed(
            source, fitting.place(source, target), back=fitting.way_back(source, target, fitting.place(source, target))
        )
        assert placed.placement == Placement((96, height))
        np.testing.assert_allclose(placed.points_in_image(np.array([48, 48], np.float32)), [250, 250])
        assert placed.area == pytest.approx((0, 0, 96, 63.936))


@each(
    ("source", "size"),
    [((640, 427), (1199, 800)), ((6000, 200), (1333, 44)), ((800, 900), (800, 900)), ((9, 30), (400, 1333))],
)
def test_a_whole_image_keeps_its_proportions(source: Size, size: Size) -> None:
    """As DETR's processor resizes it."""
    assert Fitting(Fit.CROP, shorter=800, longer=1333).uncut(source) == Placement(size)


@each(("source", "size"), [((640, 427), (1184, 800)), ((6000, 200), (1328, 32)), ((800, 900), (800, 896))])
def test_its_sides_may_be_multiples(source: Size, size: Size) -> None:
    """As YOLOS's processor resizes it."""
    assert Fitting(Fit.CROP, shorter=800, longer=1333, multiple=16).uncut(source) == Placement(size)


@each(("returns", "top", "bottom"), [("ratio", 0, 75), ("sides", 0, 80), ("unrounded", 2.5, 77.5)])
def test_places_return_as_in_each_library(returns: Any, top: float, bottom: float) -> None:
    """ModelAPI and libreyolo round sides on the way there alone, YOLOv5 no padding either; Ultralytics does both."""
    source, target = (1200, 80), (96, 64)
    fitting = Fitting(Fit.LETTERBOX, returns=returns)
    placement = fitting.place(source, target)
    assert placement == Placement((96, 6), top=29)
    placed = Placed(source, placement, back=fitting.way_back(source, target, placement))
    assert placed.in_image(np.array([[0, 29, 96, 35]], np.float32)).tolist() == [[0, top, 1200, bottom]]
