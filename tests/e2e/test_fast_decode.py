"""The option fast_decode changes pixels slightly and keeps all labels: on digits and scikit-learn's photographs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from support import photos
from support.stack import Stack, running

pytestmark = pytest.mark.extended

DIGITS = 60
SIDE = 64
"""Pixels of an enlarged digit: eight times what the model wants, so that decoding can leave most of it out."""


@pytest.fixture(scope="module")
def fast(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"LIGHTBOX_OPTIONS": '{"fast_decode": true}', "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "mobilenet_v2"}
    with running(sample_models, tmp_path_factory.mktemp("fast"), **settings) as stack:
        yield stack


def _jpeg(pixels: np.ndarray, side: int = 0) -> bytes:
    image = Image.fromarray(pixels).convert("RGB")
    buffer = io.BytesIO()
    (image.resize((side, side)) if side else image).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def _probabilities(stack: Stack, body: bytes, model: str) -> np.ndarray:
    answer = stack.invoke(body, X_Amzn_SageMaker_Custom_Attributes=f"tfs-model-name={model}")
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["predictions"][0])


def test_digits_keep_their_labels(stack: Stack, fast: Stack) -> None:
    images, labels = photos.digits()
    bodies = [_jpeg((image * 255 / 16).astype(np.uint8), SIDE) for image in images[:DIGITS]]
    whole = np.array([_probabilities(stack, body, "digits") for body in bodies])
    reduced = np.array([_probabilities(fast, body, "digits") for body in bodies])
    assert (whole.argmax(1) == reduced.argmax(1)).all()
    assert (whole.argmax(1) == labels[:DIGITS]).mean() > 0.9
    assert (whole != reduced).any(), "the images were decoded in the same way"


def test_photographs_keep_their_labels(stack: Stack, fast: Stack) -> None:
    for name in photos.NAMES:
        body = _jpeg(photos.photo(name).repeat(4, axis=0).repeat(4, axis=1))
        whole, reduced = (_probabilities(server, body, "mobilenet_v2") for server in (stack, fast))
        assert whole.argmax() == reduced.argmax()
        assert (whole != reduced).any()
        np.testing.assert_allclose(reduced, whole, rtol=0.1)
