"""Send one photo to the three input forms of MobileNetV2, and compare decoding in the graph with Pillow."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from lightbox.tools.model_zoo.input_forms import decode_one, resize

pytestmark = pytest.mark.extended

SIDE = 224


def pillow(photo: bytes, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    image = Image.open(io.BytesIO(photo)).convert("RGB")
    return np.asarray(image.resize(size) if size else image)


@pytest.fixture(scope="module")
def in_process(seeded_mobilenet_v2: Any, photo: bytes) -> NDArray[np.float32]:
    """Run Pillow's pixels through Keras's preprocessing and model."""
    from keras.applications.mobilenet_v2 import preprocess_input

    pixels = pillow(photo, (SIDE, SIDE)).astype(np.float32)
    return np.asarray(seeded_mobilenet_v2(preprocess_input(pixels)[None], training=False))


def test_a_prepared_tensor_gives_what_keras_gives(
    mobilenet_v2_forms: dict[str, Path], predict: Any, in_process: NDArray[np.float32], photo: bytes
) -> None:
    prepared = pillow(photo, (SIDE, SIDE)).astype(np.float32) / np.float32(127.5) - np.float32(1)
    np.testing.assert_allclose(
        predict(mobilenet_v2_forms["float32"], prepared[None])["probabilities"], in_process, rtol=1e-4
    )


def test_raw_pixels_give_what_keras_gives(
    mobilenet_v2_forms: dict[str, Path], predict: Any, in_process: NDArray[np.float32], photo: bytes
) -> None:
    pixels = pillow(photo, (SIDE, SIDE))
    np.testing.assert_allclose(
        predict(mobilenet_v2_forms["uint8"], pixels[None])["probabilities"], in_process, rtol=1e-4
    )


def test_encoded_bytes_give_what_keras_gives_but_for_single_rounded_pixels(
    mobilenet_v2_forms: dict[str, Path], predict: Any, in_process: NDArray[np.float32], photo: bytes
) -> None:
    values = predict(mobilenet_v2_forms["bytes"], [photo])["probabilities"]
    # One pixel value in a thousand differs by 1 (of 255).
    np.testing.assert_allclose(values, in_process, rtol=0.02, atol=1e-6)
    assert values.argmax() == in_process.argmax()


def test_encoded_images_of_different_sizes_make_one_batch(
    mobilenet_v2_forms: dict[str, Path], predict: Any, photo: bytes
) -> None:
    smaller = encoded(pillow(photo, (300, 200)), "PNG")
    both = predict(mobilenet_v2_forms["bytes"], [photo, smaller])["probabilities"]
    alone = predict(mobilenet_v2_forms["bytes"], [smaller])["probabilities"]
    assert both.shape == (2, 1000)
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
