"""The images that the clients send: a real photograph in any size."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

PHOTO = "china.jpg"
"""One of the two photographs that come with scikit-learn, 640 x 427."""


@lru_cache(maxsize=32)
def photo(width: int = 1024, height: int = 768, quality: int = 90) -> bytes:
    """Return the photograph as a JPEG of this size."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    image = Image.fromarray(load_sample_image(PHOTO)).resize((width, height), Image.Resampling.LANCZOS)
    return encode(image, quality)


def encode(image: object, quality: int) -> bytes:
    """Encode as JPEG."""
    buffer = io.BytesIO()
    image.save(buffer, "jpeg", quality=quality)  # type: ignore[attr-defined]
    return buffer.getvalue()


@lru_cache(maxsize=8)
def pixels(side: int) -> npt.NDArray[np.uint8]:
    """Return the photograph as raw pixels, uint8 [1, side, side, 3]."""
    from PIL import Image

    with Image.open(io.BytesIO(photo(side, side))) as image:
        return np.asarray(image.convert("RGB"))[None]


@lru_cache(maxsize=8)
def pixels_npy(count: int, side: int) -> bytes:
    """Return a .npy file of ``count`` images of raw pixels, uint8 [count, side, side, 3]."""
    buffer = io.BytesIO()
    np.save(buffer, np.repeat(pixels(side), count, axis=0))
    return buffer.getvalue()


def write_crops(folder: Path, count: int) -> list[Path]:
    """Write ``count`` square crops of scikit-learn's two photographs as JPEG into a folder, unless they exist."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    folder.mkdir(parents=True, exist_ok=True)
    images = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    random = np.random.default_rng(11)
    paths = [folder / f"{number:03}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        image = images[number % len(images)]
        side = int(random.integers(160, image.height))
        left, top = int(random.integers(0, image.width - side + 1)), int(random.integers(0, image.height - side + 1))
        if not path.exists():
            path.write_bytes(encode(image.crop((left, top, left + side, top + side)), 90))
    return paths
