"""Each resize filter produces the same pixels as the library in its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from lightbox.images.preparation import Filter, Fit, Fitting, PixelValues, Preparation, Scaling
from lightbox.images.resize import Resizer
from support.parameters import each

SIZES = [((97, 61), (32, 48)), ((31, 40), (64, 90)), ((50, 50), (50, 50)), ((1, 7), (3, 1)), ((300, 200), (7, 5))]
RESIZER = Resizer(2)


def photo(size: tuple[int, int], mode: str) -> Image.Image:
    channels = {"RGB": (3,), "L": ()}[mode]
    pixels = np.random.default_rng(7).integers(0, 256, (size[1], size[0], *channels), np.uint8)
    return Image.fromarray(pixels)


def resized(image: Image.Image, size: tuple[int, int], by: str, dtype: Any, scaling: Scaling = Scaling.NONE) -> Any:
    out = np.empty((size[1], size[0], len(image.getbands())), dtype)
    values = PixelValues(scaling, bgr=scaling is Scaling.CAFFE)
    RESIZER.fill(image, out, Preparation(Filter(by), values=values), by_all_cores=True)
    return out


@each(("source", "target"), SIZES)
@each("mode", ["RGB", "L"])
@each("by", ["bicubic", "bilinear", "nearest", "lanczos", "box"])
def test_pillows(by: str, mode: str, source: tuple[int, int], target: tuple[int, int]) -> None:
    image = photo(source, mode)
    expected = np.asarray(image.resize(target, Image.Resampling[by.upper()])).reshape(target[1], target[0], -1)
    for dtype in (np.uint8, np.float32):
        np.testing.assert_array_equal(resized(image, target, by, dtype), expected.astype(dtype))


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("by", ["tf_bilinear", "tf_nearest"])
def test_tensorflows(by: str, mode: str) -> None:
    import tensorflow as tf

    for source, target in SIZES:
        image = photo(source, mode)
        pixels = np.asarray(image).reshape(source[1], source[0], -1)
        expected = tf.image.resize(pixels, (target[1], target[0]), by.removeprefix("tf_")).numpy()
        found = resized(image, target, by, np.float32)
        np.testing.assert_allclose(found, expected.astype(np.float32), rtol=0, atol=2e-5 if by == "tf_bilinear" else 0)


@each("by", list(Filter))
def test_scalings_come_after(by: Filter) -> None:
    image = photo((97, 61), "RGB")
    plain = resized(image, (32, 48), by, np.float32)
    np.testing.assert_array_equal(
        resized(image, (32, 48), by, np.float32, Scaling.TF), plain / np.float32(127.5) - np.float32(1)
    )
    caffe = resized(image, (32, 48), by, np.float32, Scaling.CAFFE)
    np.testing.assert_allclose(caffe[..., 0], plain[..., 2] - np.float32(103.939), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("by", [Filter.TF_BILINEAR, Filter.TF_NEAREST, Filter.OPENCV_BILINEAR])
def test_a_part_of_what_tensorflow_or_opencv_makes_is_that_of_the_whole(by: Filter) -> None:
    image, out = photo((97, 61), "RGB"), np.empty((48, 32, 3), np.float32)
    placement = Fitting(Fit.CROP).place(image.size, (32, 48))
    RESIZER.fill(image, out, Preparation(by, Fitting(Fit.CROP)), by_all_cores=True)
    whole = resized(image, placement.size, by, np.float32)
    np.testing.assert_array_equal(out, whole[-placement.top :, -placement.left :][:48, :32])
