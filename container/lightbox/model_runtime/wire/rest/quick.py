"""Regular lists of numbers to ndarrays at the speed of C, or None if the exact reader must parse them.

All functions give exactly the same result as the exact reader, or give up.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from lightbox.model_runtime.wire import dtypes

Array = np.ndarray[Any, np.dtype[Any]]
Inputs = dict[str, Array]

_INT32 = (-(1 << 31), (1 << 31) - 1)
LIMITS = {
    dtypes.DT_INT32: _INT32,
    dtypes.DT_INT16: _INT32,
    dtypes.DT_INT8: _INT32,
    dtypes.DT_UINT8: _INT32,
    dtypes.DT_INT64: (-(1 << 63), (1 << 63) - 1),
    dtypes.DT_UINT32: (0, (1 << 32) - 1),
    dtypes.DT_UINT64: (0, (1 << 64) - 1),
}
"""The smallest and the largest JSON number for an integer dtype; short dtypes keep the low bits."""
FLOATS = frozenset({dtypes.DT_FLOAT, dtypes.DT_DOUBLE})
DTYPES = FLOATS | LIMITS.keys()
"""Numbers of the dtypes that this module reads."""


def regular(values: Any, by_row: bool, types: Mapping[str, int]) -> Inputs | None:
    """Return the inputs in parsed ``instances`` (``by_row``) or ``inputs``, or None.

    For text without ``true`` and ``false``: they would count as 1 and 0.
    """
    if not DTYPES.issuperset(types.values()) or (by_row and not (isinstance(values, list) and values)):
        return None
    found = {name: array(nested, types[name]) for name, nested in (columns(values, by_row, types) or {}).items()}
    whole = {name: values for name, values in found.items() if values is not None}
    return whole if len(whole) == len(types) else None


def _objects(values: Any, by_row: bool) -> list[dict[str, Any]]:
    if isinstance(values, dict):
        return [values]
    if by_row and isinstance(values[0], dict):
        return [value for value in values if isinstance(value, dict)]
    return []


def columns(values: Any, by_row: bool, types: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the nested list of each input in parsed ``instances`` (``by_row``) or ``inputs``, or None."""
    objects = _objects(values, by_row)
    if not objects:
        return {next(iter(types)): values} if len(types) == 1 else None
    if any(item.keys() != types.keys() for item in objects) or (by_row and len(objects) != len(values)):
        return None
    if not by_row:
        return objects[0]
    return {name: [item[name] for item in objects] for name in types}


def array(nested: Any, number: int) -> Array | None:
    """Return nested lists of numbers as an array, or None."""
    shape = _shape(nested)
    try:
        return packed(_flatten(nested, shape), shape, number)
    except (TypeError, ValueError):
        return None


def packed(flat: list[Any], shape: tuple[int, ...], number: int) -> Array | None:
    """Return a list of numbers as an array, or None if JSON cannot hold all of them in this dtype."""
    if number not in DTYPES or len(shape) > dtypes.MAX_DIMENSIONS:
        return None
    code = code_of(number)
    try:
        # struct packs a list of numbers three times as fast as numpy or array.array.
        values = np.frombuffer(struct.pack(f"={len(flat)}{code}", *flat), code)
    except (TypeError, ValueError, struct.error):
        return None
    found = converted(values, number)
    return None if found is None else found.reshape(shape)


def code_of(number: int) -> str:
    """Return the type code in which JSON's numbers are read: float64, uint64 or int64."""
    return "d" if number in FLOATS else "Q" if number == dtypes.DT_UINT64 else "q"


def converted(values: Array, number: int) -> Array | None:
    """Return numbers of the type ``code_of`` in a dtype, or None if JSON cannot hold all of them in it."""
    if number in LIMITS and values.size:
        low, high = LIMITS[number]
        if not low <= values.min() <= values.max() <= high:
            return None
    with np.errstate(over="ignore"):
        found = values.astype(dtypes.numpy_dtype(number))
    if number == dtypes.DT_FLOAT and (np.isinf(found) & np.isfinite(values)).any():
        return None
    return found


def _shape(nested: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(nested, list):
        shape.append(len(nested))
        if not nested:
            break
        nested = nested[0]
    return tuple(shape)


def _flatten(nested: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the leaves; raise ValueError or TypeError unless every list at a level has the same length."""
    if not shape:
        return [nested]
    level: list[Any] = nested
    for size in shape[1:]:
        if set(map(len, level)) != {size}:
            raise ValueError("ragged")
        level = list(chain.from_iterable(level))
    return level
