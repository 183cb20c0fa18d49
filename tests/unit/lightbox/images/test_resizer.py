"""Bands of rows make the image that Pillow makes at once; only who is alone has all cores."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lightbox.images.resize import Resizer, Scaling, bands, resize, to_tensor


def noise(width: int, height: int, seed: int = 7) -> Image.Image:
    """An image whose every pixel would show a filter that is a little off."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.extended
@settings(max_examples=150, deadline=None)
@given(st.integers(300, 900), st.integers(300, 900), st.integers(1, 400), st.integers(1, 400), st.integers(1, 9))
def test_bands_put_together_are_pillows_image(
    width: int, height: int, to_width: int, to_height: int, most: int
) -> None:
    image = noise(width, height)
    size = (to_width, to_height)
    parts = bands(image, size, most)
    assert [row for rows in parts for row in rows] == list(range(to_height))
    assert len(parts) <= most
    together = np.concatenate([np.asarray(resize(image, size, rows)) for rows in parts])
    np.testing.assert_array_equal(together, np.asarray(image.resize(size)))


@pytest.mark.parametrize(
    ("source", "size", "most", "count"),
    [
        ((1024, 768), (224, 224), 2, 2),
        ((1024, 768), (224, 224), 7, 4),
        ((1024, 768), (224, 224), 1, 1),
        ((1024, 768), (224, 226), 8, 2),  # only halves have whole rows
        ((1024, 768), (224, 225), 2, 1),
        ((300, 300), (224, 224), 2, 1),  # not worth a thread
        ((1024, 768), (1024, 768), 2, 1),  # nothing to do
        ((1024, 1024), (560, 128), 2, 1),  # the half would be resized in another order than the whole
    ],
)
def test_bands_are_as_many_as_give_the_same_pixels(
    source: tuple[int, int], size: tuple[int, int], most: int, count: int
) -> None:
    assert len(bands(noise(*source), size, most)) == count


@pytest.mark.parametrize(("alone", "cores", "several"), [(True, 4, True), (True, 1, False), (False, 4, False)])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16"])
def test_who_is_alone_has_all_cores_and_the_tensor_is_the_same(
    alone: bool, cores: int, several: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()

    def noted(*args: Any) -> Any:
        threads.add(threading.current_thread().name)
        return resize(*args)

    monkeypatch.setattr("lightbox.images.resize.resize", noted)
    image, scaling = noise(900, 700), Scaling.NONE if dtype == "uint8" else Scaling.TORCH
    batch = np.zeros((3, 64, 48, 3), dtype)
    Resizer(cores).fill(image, scaling, batch[1], by_all_cores=alone)
    np.testing.assert_array_equal(batch[1], to_tensor(image.resize((48, 64)), scaling, dtype))
    assert not batch[[0, 2]].any()
    assert (len(threads) > 1) is several
