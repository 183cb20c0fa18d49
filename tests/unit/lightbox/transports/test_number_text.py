"""Numbers as JSON for the model server: a table and one-by-one formatting give the same text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lightbox.codecs.json_text import array_text
from lightbox.images.preparation import PixelValues, Scaling
from lightbox.model_runtime.native import numbers
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest.number_lists import NumberList
from lightbox.transports.rest import number_text
from support.parameters import each

LEVELS = np.random.default_rng(1).integers(0, 256, (2, 60, 70, 3), np.uint8)


def with_names() -> npt.NDArray[np.float32]:
    """An image with NaN, Infinity and -Infinity in some pixels."""
    image = LEVELS.astype(np.float32)
    image[0, 0, 0], image[1, 30, 30], image[1, 59, 69] = np.nan, np.inf, -np.inf
    return image


@pytest.mark.parametrize("is_compiled", [True, False])
@each(
    "array",
    [
        *[PixelValues(scaling).scaled(LEVELS) for scaling in Scaling],
        with_names(),
        LEVELS.astype(np.float32).transpose(0, 3, 1, 2),
        LEVELS.astype(np.float32) / -3e38,
        LEVELS.astype(">f4"),
        LEVELS.astype(np.float32).ravel(),
        np.random.default_rng(2).random((100, 100, 3), np.float32),
        LEVELS / 3,
        LEVELS,
        np.zeros((0, 20_000), np.float32),
    ],
)
def test_the_text_is_that_of_each_number(
    array: npt.NDArray[Any], is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_compiled:
        monkeypatch.setattr(numbers, "load", lambda: None)
    text = bytes(number_text(array))
    assert text == array_text(array)
    if array.size:
        np.testing.assert_array_equal(np.array(json.loads(text), array.dtype), array)
    if is_compiled and array.size and array.dtype == np.float32 and np.isfinite(array).all() and b"e-3" not in text:
        arrived = NumberList(text, lambda: None).array(dtypes.DT_FLOAT)
        assert arrived is not None
        assert (arrived.shape, arrived.tobytes()) == (array.shape, array.tobytes())
