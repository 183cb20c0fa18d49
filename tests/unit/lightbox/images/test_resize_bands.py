"""Resizing in bands of rows equals resizing the whole image. Only a request that runs alone uses all cores."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lightbox.images.preparation import Fit, Fitting, PixelValues, Preparation, Scaling
from lightbox.images.resize import NativeResize, Resizer, load_native

NATIVE = load_native()
needs_native = pytest.mark.skipif(NATIVE is None, reason="the native resize is not compiled")


def noise(width: int, height: int, seed: int = 7) -> Image.Image:
    """Return a noise image: any small error of a filter changes its pixels."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


@needs_native
@pytest.mark.extended
@settings(max_examples=150, deadline=None)
@given(
    st.integers(300, 900),
    st.integers(300, 900),
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(2, 9),
    st.sampled_from(list(Fit)),
)
def test_bands_put_together_are_the_image(
    width: int, height: int, to_width: int, to_height: int, cores: int, fit: Fit
) -> None:
    image, wanted = noise(width, height), Preparation(fitting=Fitting(fit))
    by_bands, by_one = (np.zeros((to_height, to_width, 3), np.uint8) for _ in range(2))
    Resizer(cores, NATIVE).fill(image, by_bands, wanted, by_all_cores=True)
    Resizer(1).fill(image, by_one, wanted, by_all_cores=False)
    np.testing.assert_array_equal(by_bands, by_one)


@needs_native
@pytest.mark.parametrize(
    ("source", "size", "cores", "alone", "count"),
    [
        ((1024, 768), (224, 224), 2, True, 2),
        ((1024, 768), (224, 225), 7, True, 7),
        ((1024, 768), (224, 3), 7, True, 3),
        ((1024, 768), (224, 224), 1, True, 1),
        ((1024, 768), (224, 224), 4, False, 1),
        ((300, 300), (224, 224), 2, True, 1),  # too small for a second thread
        ((1024, 768), (1024, 768), 2, True, 1),  # no resize needed
    ],
)
def test_who_is_alone_has_all_cores(
    source: tuple[int, int],
    size: tuple[int, int],
    cores: int,
    alone: bool,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, ...]] = []
    begun = threading.Barrier(count)
    resize = NativeResize.resize

    def noted(self: NativeResize, image: Any, by: Any, out: Any, **rest: Any) -> bool:
        begun.wait(60)  # waits until all bands run at the same time
        made.append(out.shape)
        return resize(self, image, by, out, **rest)

    monkeypatch.setattr(NativeResize, "resize", noted)
    image, wanted = noise(*source), Preparation(values=PixelValues(Scaling.TORCH))
    batch = np.zeros((3, size[1], size[0], 3), np.float32)
    Resizer(cores, NATIVE).fill(image, batch[1], wanted, by_all_cores=alone)
    expected = PixelValues(Scaling.TORCH).scaled(np.asarray(image.resize(size)))
    np.testing.assert_array_equal(batch[1], expected)
    assert not batch[[0, 2]].any()
    assert len(made) == (0 if source == size else count)
