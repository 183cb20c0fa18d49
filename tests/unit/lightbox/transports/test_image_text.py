"""Images as JSON by a table: the same numbers as written one by one, or no table at all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lightbox.images.preparation import PixelValues, Scaling
from lightbox.tfs_wire import dtypes
from lightbox.tfs_wire.rest import flat
from lightbox.transports.image_text import image_text, padded_text

Float32 = npt.NDArray[np.float32]


def levels(*shape: int, seed: int = 1) -> Float32:
    """An image, or several, of whole numbers from 0 to 255."""
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.float32)


def together(pieces: Iterable[bytes | memoryview] | None) -> bytes | None:
    """Put the pieces of a text together."""
    return None if pieces is None else b"".join(pieces)


def text_of(array: npt.NDArray[Any]) -> bytes:
    """Return the whole text of an array."""
    return b"".join(padded_text(array))


def same(text: bytes | None, array: Float32) -> bool:
    """Whether a text holds the array, bit for bit."""
    assert text is not None
    read = np.array(json.loads(text), np.float32)
    return read.shape == array.shape and read.tobytes() == array.tobytes()


@pytest.mark.parametrize("scaling", Scaling)
def test_every_scaling_has_a_table(scaling: Scaling) -> None:
    photo = Image.fromarray(levels(60, 70, 3).astype(np.uint8)).resize((80, 90))
    tensor = PixelValues(scaling).scaled(np.asarray(photo))
    assert same(together(image_text(tensor)), tensor)


@pytest.mark.extended
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 3), max_size=3),
    st.integers(1, 12),
    st.integers(1, 4),
    st.floats(-1e5, 1e5),
    st.floats(1e-5, 1e5),
)
def test_any_affine_image_is_the_same_as_number_by_number(
    outer: list[int], width: int, channels: int, mean: float, step: float
) -> None:
    height = -(-10_000 // (width * channels))
    image = levels(*outer, height, width, channels) * np.float32(step) + np.float32(mean)
    text = together(image_text(image))
    assert text is None or same(text, image)
    assert same(text_of(image), image)


def test_what_is_no_number_keeps_its_name() -> None:
    image = levels(60, 60, 3)
    image[0, 0], image[30, 30], image[59, 59] = np.nan, np.inf, -np.inf
    text = text_of(image)
    assert image_text(image) is not None
    assert text.count(b"NaN") == text.count(b"-Infinity") == 3
    np.testing.assert_array_equal(np.array(json.loads(text), np.float32), image)


def test_numbers_are_no_longer_than_they_need_be() -> None:
    whole, fractions = levels(100, 100, 3), levels(100, 100, 3) / np.float32(127.5) - np.float32(1)
    assert len(text_of(whole)) == pytest.approx(8 * whole.size, rel=0.01)
    assert len(text_of(fractions)) == pytest.approx(16 * fractions.size, rel=0.01)


@pytest.mark.parametrize(
    "array",
    [
        np.random.default_rng(2).random((100, 100, 3), np.float32),  # every number another
        np.random.default_rng(2).integers(0, 256, (100, 100, 3)) + np.float32(1e6),  # too near for the upper halves
        levels(100, 100, 3).astype(np.float64),
        levels(100, 100, 5),
        levels(30_000),
        levels(10, 10, 3),
    ],
)
def test_others_have_no_table(array: npt.NDArray[Any]) -> None:
    assert image_text(array) is None
    np.testing.assert_array_equal(np.array(json.loads(text_of(array)), array.dtype), array)


def test_the_embedded_server_reads_it_as_one_list() -> None:
    """Not as a list for each pixel, which takes five times as long."""
    image = levels(1, 64, 64, 3) / np.float32(127.5) - np.float32(1)
    found = flat.array(memoryview(text_of(image)), dtypes.DT_FLOAT)
    assert found is not None
    np.testing.assert_array_equal(found, image)
