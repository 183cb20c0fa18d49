"""Handwritten digits to post, and what the sample model ``digits`` makes of them."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from docker_image.container import Container


@cache
def digits() -> tuple[list[bytes], NDArray[np.int64]]:
    """Return ten handwritten digits as PNG, and their labels."""
    from sklearn.datasets import load_digits

    from lightbox.model_zoo.digits import as_pixels

    data = load_digits()
    return [_png(pixels) for pixels in as_pixels(data.images[:10])], data.target[:10]


def ask(container: Container, wire: str, image: bytes) -> list[float]:
    """Return the ten probabilities of one image, over one wire; raise urllib.error.HTTPError."""
    answer = container.invoke(image, f"tfs-model-name=digits, tfs-transport={wire}")
    probabilities: list[float] = answer["predictions"][0]
    return probabilities


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()
