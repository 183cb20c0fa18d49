"""Decoding and resizing in the graph, compared with Pillow's. test_digits.py has the forms' predictions."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from lightbox.tools.model_zoo.input_forms import decode_one, resize

pytestmark = pytest.mark.extended


def pillow(photo: bytes, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    image = Image.open(io.BytesIO(photo)).convert("RGB")
    return np.asarray(image.resize(size) if size else image)


def test_encoded_images_of_different_sizes_make_one_batch(
    digits_forms: dict[str, Path], predict: Any, photo: bytes
) -> None:
    smaller = encoded(pillow(photo, (300, 200)), "PNG")
    both = predict(digits_forms["bytes"], [photo, smaller])["probabilities"]
    alone = predict(digits_forms["bytes"], [smaller])["probabilities"]
    assert both.shape == (2, 10)
    np.testing.assert_allclose(both[1], alone[0], rtol=1e-4)


@pytest.mark.parametrize("size", [(224, 224), (640, 640), (8, 8), (100, 300), (640, 427)])
def test_the_graph_resizes_as_pillow_does(photo: bytes, size: tuple[int, int]) -> None:
    import tensorflow as tf

    width, height = size
    resized = resize(tf.constant(pillow(photo)), height, width).numpy()
    difference = np.abs(resized - pillow(photo, size).astype(np.float32))
    assert difference.max() <= 1
    assert np.count_nonzero(difference) <= difference.size / 100


@pytest.mark.parametrize(
    ("format_name", "mode"), [("PNG", "RGB"), ("PNG", "L"), ("PNG", "1"), ("PNG", "P"), ("BMP", "RGB")]
)
def test_the_graph_decodes_other_formats_to_three_channels(photo: bytes, format_name: str, mode: str) -> None:
    file = io.BytesIO()
    Image.fromarray(pillow(photo)).convert(mode).save(file, format_name)
    np.testing.assert_array_equal(decode_one(file.getvalue()).numpy(), pillow(file.getvalue()))


def encoded(pixels: NDArray[Any], format_name: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format_name)
    return file.getvalue()
