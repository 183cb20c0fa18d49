import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from lightbox.tools.model_zoo import digits

pytestmark = pytest.mark.extended


def test_the_split_holds_out_360_images_of_every_class_and_trains_on_none_of_them() -> None:
    split = digits.split()
    assert split.held_out_images.shape == (360, 8, 8)
    assert split.train_images.shape == (1437, 8, 8)
    assert np.bincount(split.held_out_labels).min() >= 35
    trained_on = {image.tobytes() for image in split.train_images}
    assert not [image for image in split.held_out_images if image.tobytes() in trained_on]


@pytest.mark.parametrize("form", ["float32", "uint8", "bytes"])
def test_every_form_labels_held_out_digits_as_the_trained_net_does(
    digits_forms: dict[str, Path], trained_digits: Any, predict: Any, form: str
) -> None:
    split = digits.split()
    expected = np.asarray(trained_digits(digits.as_tensor(split.held_out_images), training=False))
    answer = predict(digits_forms[form], held_out_as(form))["probabilities"]
    np.testing.assert_array_equal(answer.argmax(axis=1), expected.argmax(axis=1))
    assert np.mean(answer.argmax(axis=1) == split.held_out_labels) >= 0.98


def held_out_as(form: str) -> Any:
    pixels = digits.split().held_out_images
    if form == "bytes":
        return [as_png(image) for image in pixels]
    return digits.as_tensor(pixels) if form == "float32" else np.repeat(pixels[..., None], 3, axis=-1)


def as_png(image: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()
