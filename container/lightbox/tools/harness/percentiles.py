"""Percentiles of latencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def percentiles(values: Sequence[float], numbers: Iterable[float]) -> list[float]:
    """Return for each number the value that this percentage of the values does not exceed, interpolated linearly.

    Without values each is infinite: requests that were never answered are slower than any bound.
    """
    wanted = list(numbers)
    return [float(value) for value in np.percentile(values, wanted)] if values else [float("inf")] * len(wanted)


def percentile(values: Sequence[float], number: float) -> float:
    """Return one of ``percentiles``."""
    return percentiles(values, [number])[0]
