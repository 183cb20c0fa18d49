"""Compares results: errors, names, dtypes, shapes and integers must be equal, floats up to rounding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.tempting_models.cases import Answer, Array, Case

RELATIVE = 1e-5
ABSOLUTE = 1e-6
OF_LARGEST = 2e-6
"""Of an output's largest value: what sums of many products may lose."""


def difference(case: Case, wanted: Answer, got: Answer) -> str | None:
    """Return what differs first, None if nothing does."""
    if wanted.code != got.code:
        return f"status {got.code}, expected {wanted.code}"
    if wanted.outputs.keys() != got.outputs.keys():
        return f"outputs {sorted(got.outputs)}, expected {sorted(wanted.outputs)}"
    return next(_differences(case, wanted, got), None)


def _differences(case: Case, wanted: Answer, got: Answer) -> Iterator[str]:
    for name, array in wanted.outputs.items():
        found = got.outputs[name]
        if (_kind(found), found.shape) != (_kind(array), array.shape):
            yield f"{name} is {_kind(found)}{list(found.shape)}, expected {_kind(array)}{list(array.shape)}"
        elif not case.is_random and not _is_same(array, found):
            yield f"{name} is {found.ravel()[:8]}, expected {array.ravel()[:8]}"


def _kind(array: Array) -> str:
    return "string" if array.dtype.kind in "OS" else array.dtype.name


def _is_same(wanted: Array, got: Array) -> bool:
    if wanted.dtype.kind not in "fc" and wanted.dtype.name != "bfloat16":
        return bool(np.array_equal(wanted, got))
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    one, other = wanted.astype(wide), got.astype(wide)
    zeros = (one == 0) & (other == 0)
    if wide is np.float64 and np.any(np.signbit(one[zeros]) != np.signbit(other[zeros])):
        return False
    largest = float(np.max(np.abs(one[np.isfinite(one)]), initial=0))
    return bool(np.allclose(other, one, RELATIVE, max(ABSOLUTE, OF_LARGEST * largest), equal_nan=True))
