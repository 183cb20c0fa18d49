"""Drawn answers are seen on any background, and lie where the response says."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from lightbox.heads.masks import Part, polygons, run_lengths
from lightbox.images.drawing import COLORS, color_of, drawn
from lightbox.images.resize import Rgbx

GREY = 128
BLINDNESS = {  # Machado, Oliveira and Fernandes 2009, of linear RGB
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


def linear(color: Any) -> npt.NDArray[np.float64]:
    values = np.asarray(color, np.float64) / 255
    return np.where(values <= 0.04, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: Any, other: Any) -> float:
    darker, lighter = sorted(float(linear(color) @ LUMINANCE) for color in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def photo(width: int = 600, height: int = 400, value: int = GREY) -> Image.Image:
    return Image.new("RGB", (width, height), (value,) * 3)


def pixels(picture: Image.Image) -> npt.NDArray[np.uint8]:
    return np.asarray(picture)


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_people_with_color_blindness_tell_the_colors_apart(blindness: str) -> None:
    seen = np.clip(linear(COLORS) @ np.array(BLINDNESS[blindness]).T, 0, 1) ** (1 / 2.4)
    assert min(np.abs(one - other).max() for one, other in combinations(seen, 2)) > 0.1


@pytest.mark.parametrize("background", [0, 60, GREY, 190, 255])
def test_a_box_and_its_name_are_seen_on_any_background(background: int) -> None:
    for number in range(len(COLORS)):
        color, edge = color_of(number)
        assert contrast(color, edge) >= 4
        assert max(contrast(color, (background,) * 3), contrast(edge, (background,) * 3)) >= 2
        item = {"label": "cat", "class": number, "score": 0.5, "box": [100, 100, 300, 200]}
        found = pixels(drawn(photo(value=background), [item]))
        across = {tuple(pixel) for pixel in found[150, 90:110].tolist()}
        assert {color, edge} <= across
        name = {tuple(pixel) for pixel in found[85:97, 100:130].reshape(-1, 3).tolist()}
        assert {color, edge} <= name


@pytest.mark.parametrize("kind", ["Pillow", "RGBX"])
def test_masks_cover_their_pixels_as_run_lengths_and_as_outlines(kind: str) -> None:
    given: Any = photo() if kind == "Pillow" else Rgbx(np.full((400, 600, 4), GREY, np.uint8))
    seen = np.zeros((100, 200), np.bool_)
    seen[30:60, 50:150] = True
    parts = [Part(100, 100, np.ascontiguousarray(seen.T))]
    item = {"class": 4, "score": 0.5, "box": [149.5, 129.5, 250.2, 160.2]}
    lengths = {**item, "mask": {"size": [400, 600], "counts": run_lengths(parts, (600, 400)).tolist()}}
    outlines = {**item, "mask": [outline.tolist() for outline in polygons(parts)]}
    for one in (lengths, outlines):
        found = pixels(drawn(given, [one])) != GREY
        assert found[131:159, 151:249].any(axis=2).all()
        assert not found[165:].any() and not found[:, 260:].any()
    found = pixels(drawn(photo(300, 200), [lengths], origin=(100, 100))) != GREY
    assert found[31:59, 51:149].any(axis=2).all()
    assert not found[65:].any() and not found[:, 160:].any()


def test_corners_and_keypoints_that_are_sure() -> None:
    item: dict[str, Any] = {"class": 0, "score": 0.5, "box": [200, 100, 400, 300]}
    points = [[250, 200, 0.9], [300, 200, 0.1], [350, 200, float("nan")]]
    corners = [[300, 100], [400, 200], [300, 300], [200, 200]]
    found = (pixels(drawn(photo(), [{**item, "corners": corners, "keypoints": points}])) != GREY).any(axis=2)
    assert found[200, 250] and not found[200, 300] and not found[200, 350]
    assert found[150, 350] and found[250, 250] and not found[290, 390]


def test_the_best_object_lies_over_the_others() -> None:
    box = [100, 100, 300, 200]
    items = [{"class": number, "score": 0.9 - number / 10, "box": box} for number in range(3)]
    assert pixels(drawn(photo(), items))[150, 100].tolist() == list(COLORS[0])


def test_small_pictures_are_enlarged_so_that_words_fit() -> None:
    found = drawn(photo(28, 20), [{"label": "seven", "class": 7, "score": 0.98}])
    assert found.size == (280, 200)
    boxed = pixels(drawn(photo(28, 20), [{"class": 0, "score": 0.9, "box": [10, 5, 20, 15]}]))
    assert boxed[100, 100].tolist() == list(COLORS[0])


def test_nothing_is_drawn_where_nothing_was_found_and_the_photo_is_unchanged() -> None:
    given = photo()
    assert (pixels(drawn(given, [])) == GREY).all()
    drawn(given, [{"label": "a\nvery " + 60 * "long ", "class": 900, "score": float("nan")}])
    drawn(given, [{"class": -1, "score": 1.0, "box": [0, 0, 600, 400]}])
    assert (pixels(given) == GREY).all()
