"""Masks of any map, box and place: run lengths and outlines say the pixels of a plain enlargement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from lightbox.heads.masks import Part, parts_of, polygons, run_lengths
from lightbox.heads.objects import Masks
from lightbox.images.preparation import Fit, Fitting, Placed, Placement


def pixels_of(parts: list[Part], size: tuple[int, int]) -> Any:
    """Return the pixels [height, width] that run lengths say."""
    lengths = run_lengths(parts, size)
    assert lengths.min(initial=0) >= 0
    assert (lengths[1:] > 0).all() or lengths.size <= 2
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(size[0], size[1]).T


def plain(maps: Any, box: Any, placed: Placed, size: tuple[int, int], detail: int) -> Any:
    """Return a mask by two enlargements of whole arrays, as Ultralytics' ``process_mask_native`` has them."""

    def enlarged(values: Any, axis: int, count: int) -> Any:
        places = ((np.arange(count) + 0.5) * values.shape[axis] / count - 0.5).clip(0, values.shape[axis] - 1)
        lower = np.floor(places).astype(int)
        upper = np.minimum(lower + 1, values.shape[axis] - 1)
        shape = [1, 1]
        shape[axis] = count
        rest = (places - lower).reshape(shape)
        return np.take(values, lower, axis) * (1 - rest) + np.take(values, upper, axis) * rest

    def resized(values: Any, width: int, height: int) -> Any:
        return enlarged(enlarged(values, 0, height), 1, width)

    ratio = size[0] // maps.shape[1]
    fine = resized(maps.astype(np.float64), maps.shape[1] * detail, maps.shape[0] * detail)
    (wide, high), left, top = placed.placement
    left, top, wide, high = (side * detail // ratio for side in (left, top, wide, high))
    values = resized(fine[top : top + high, left : left + wide], *placed.size)
    down, across = np.mgrid[: placed.size[1], : placed.size[0]]
    return (values > 0) & (across >= box[0]) & (across < box[2]) & (down >= box[1]) & (down < box[3])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 10_000))
def test_a_letterboxed_map_is_enlarged_without_its_padding(width: int, height: int, seed: int) -> None:
    random, size = np.random.default_rng(seed), (64, 32)
    placed = Placed((width, height), Fitting(Fit.LETTERBOX).place((width, height), size))
    (wide, high), left, top = placed.placement
    detail = next(step for step in (1, 2, 4) if not any(side * step % 4 for side in (wide, high, left, top)))
    maps, own = random.normal(size=(3, 8, 16)).astype(np.float32), random.normal(size=(1, 3)).astype(np.float32)
    sides = np.sort(random.uniform(0, [[width, height]] * 2, (2, 2)), axis=0)
    box = sides.reshape(1, 4).astype(np.float32)
    (parts,) = parts_of(Masks(maps, own), box, size, placed)
    expected = plain(np.tensordot(own[0], maps, 1), box[0], placed, size, detail)
    assert np.count_nonzero(pixels_of(parts, placed.size) != expected) <= expected.size / 500  # values next to 0


@pytest.mark.parametrize("size", [(9, 7), (18, 14), (10, 10)])
def test_own_maps_with_a_threshold_and_a_cropped_part(size: tuple[int, int]) -> None:
    """A ratio of input and map that is no whole number has no steps between."""
    maps = np.zeros((1, 7, 9), np.float32)
    maps[0, 2:5, 3:8] = 1
    placed = Placed((9, 7), Placement(size), origin=(20, 10), whole=(40, 30))
    (parts,) = parts_of(Masks(maps, threshold=0.5), np.array([[20, 10, 29, 17]], np.float32), size, placed)
    expected = np.zeros((30, 40), bool)
    expected[12:15, 23:28] = True
    np.testing.assert_array_equal(pixels_of(parts, (40, 30)), expected)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1 << 36), st.integers(0, 2), st.integers(0, 2))
def test_any_pixels(width: int, height: int, bits: int, left: int, top: int) -> None:
    """Outlines surround each part that touches by a side, and fill its holes."""
    drawn = np.array([bits >> at & 1 for at in range(width * height)], bool).reshape(width, height)
    size = (left + width + 1, top + height)
    half = max(1, width // 2)
    parts = [Part(left, top, drawn[:half]), Part(left + half, top, drawn[half:])]
    expected = np.zeros((size[1], size[0]), bool)
    expected[top : top + height, left : left + width] = drawn.T
    np.testing.assert_array_equal(pixels_of(parts, size), expected)
    image = Image.new("1", (size[0] * 2, size[1] * 2))
    for outline in polygons(parts):
        corners = [tuple(pair) for pair in outline.reshape(-1, 2).tolist()]
        ImageDraw.Draw(image).polygon([(2 * x - 0.5, 2 * y - 0.5) for x, y in corners], fill=1)
    np.testing.assert_array_equal(np.asarray(image)[::2, ::2], without_holes(expected))


def without_holes(pixels: Any) -> Any:
    """Return pixels with those that no way leads to from outside, by sides and corners."""
    outside = np.zeros(np.add(pixels.shape, 2), bool)
    free, left = ~np.pad(pixels, 1), [(0, 0)]
    while left:
        down, across = left.pop()
        if min(down, across) >= 0 and down < len(free) and across < free.shape[1] and free[down, across]:
            free[down, across], outside[down, across] = False, True
            left += [(down + one, across + other) for one in (-1, 0, 1) for other in (-1, 0, 1)]
    return ~outside[1:-1, 1:-1]
