"""Whether two engines' results for the same input are equal but for rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lightbox.model_runtime.engines.base import Array


class Tolerance(NamedTuple):
    """Tolerance of floats: relative to each value, and to the largest value of its output."""

    relative: float
    absolute: float


OF_FLOAT32, OF_FLOAT16 = Tolerance(1e-4, 1e-5), Tolerance(5e-3, 5e-3)
"""A float16 is rounded by up to 5e-4 of its value, and again in each layer."""


def difference(outputs: Mapping[str, tuple[Array, Array]], tolerance: Tolerance = OF_FLOAT32) -> str | None:
    """Return how the first different output, by name the expected result and the other one, differs; None if all are
    equal."""
    for name, (expected, got) in sorted(outputs.items()):
        if (got.dtype, got.shape) != (expected.dtype, expected.shape):
            kinds = f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}"
            return f"output {name!r} is {kinds}"
        if not _is_close(expected, got, tolerance):
            with np.errstate(all="ignore"):
                apart = np.nanmax(np.abs(got.astype(np.float64) - expected.astype(np.float64)))
            return f"output {name!r} differs by up to {apart:.3g}"
    return None


def _is_close(expected: Array, got: Array, tolerance: Tolerance) -> bool:
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, got))
    if not np.array_equal(np.isfinite(expected), np.isfinite(got)):
        return False
    finite = expected[np.isfinite(expected)]
    largest = float(np.max(np.abs(finite))) if finite.size else 0.0
    absolute = tolerance.absolute * largest
    return bool(np.allclose(got, expected, rtol=tolerance.relative, atol=absolute, equal_nan=True))
