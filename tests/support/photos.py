"""scikit-learn's photographs and digits, read without importing it, which takes two seconds."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

NAMES = ("china.jpg", "flower.jpg")


def path_of(*parts: str) -> Path:
    """Return the path of a file in ``sklearn/datasets``."""
    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath("datasets", *parts)


def photo(name: str) -> npt.NDArray[np.uint8]:
    """Return a photograph's pixels, 427x640x3, as ``sklearn.datasets.load_sample_image`` does."""
    return np.asarray(Image.open(path_of("images", name)), np.uint8)


def digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return 1,797 digits, 8x8 with values from 0 to 16, and which they are, as ``load_digits`` does."""
    table = np.loadtxt(path_of("data", "digits.csv.gz"), delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
