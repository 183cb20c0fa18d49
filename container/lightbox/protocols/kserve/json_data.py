"""A tensor's ``data`` in JSON, nested or flat."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

from lightbox.codecs.json_numbers import NumberList
from lightbox.codecs.tensors import cast, string_tensor
from lightbox.errors import InputMismatch
from lightbox.model_spec import Array, TensorSpec
from lightbox.protocols.kserve.datatypes import BYTES, numeric_dtype
from tfs_wire.dtypes import DT_DOUBLE, DT_INT32, number_of

_READ_AS = {"FP16": DT_DOUBLE, "INT8": DT_INT32, "UINT8": DT_INT32, "INT16": DT_INT32, "UINT16": DT_INT32}
"""Datatypes that are read as a wider one and then checked."""


def read_data(name: str, datatype: str, shape: tuple[int, ...], data: Any) -> Array:
    """Return the tensor; strings are taken as UTF-8. Raises InputMismatch when shape or values do not fit."""
    if isinstance(data, NumberList):
        return _long_list(name, datatype, shape, data)
    values, sizes = _flat(name, data, len(shape))
    if len(values) != math.prod(shape) or (len(sizes) > 1 and tuple(sizes) != shape):
        raise InputMismatch(
            f"input {name}: shape {list(shape)} holds {math.prod(shape)} values, got {len(values)} of shape {sizes}"
        )
    if datatype == BYTES:
        return string_tensor(_encoded(name, value) for value in values).reshape(shape)
    return _numbers(name, datatype, values).reshape(shape)


def _long_list(name: str, datatype: str, shape: tuple[int, ...], data: NumberList) -> Array:
    """Return what ``read_data`` would; raise InputMismatch, for one reason or another, where it must look."""
    dtype = numeric_dtype(name, datatype).newbyteorder("=")
    found = data.array(_READ_AS.get(datatype) or number_of(dtype))
    if found is None or found.size != math.prod(shape) or (found.ndim > 1 and found.shape != shape):
        raise InputMismatch(f"input {name}: data: expected {datatype} of shape {list(shape)}")
    return cast(found, TensorSpec(name, dtype.name, None)).reshape(shape)


def _flat(name: str, data: Any, rank: int) -> tuple[list[Any], list[int]]:
    """Return the values, row-major, and the sizes of the lists that they were nested in."""
    if not isinstance(data, list):
        raise InputMismatch(f"input {name}: data: expected a list, got {type(data).__name__}")
    values, sizes = data, [len(data)]
    while values and isinstance(values[0], list):
        lengths = {len(value) if isinstance(value, list) else -1 for value in values}
        if len(lengths) != 1 or -1 in lengths or len(sizes) >= max(rank, 1):
            raise InputMismatch(f"input {name}: data: expected lists nested as the shape says, or one flat list")
        sizes.append(lengths.pop())
        values = list(chain.from_iterable(values))
    return values, sizes


def _encoded(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise InputMismatch(f"input {name}: expected a string for each of BYTES, got {type(value).__name__}")
    return value.encode()


def _numbers(name: str, datatype: str, values: list[Any]) -> Array:
    dtype = numeric_dtype(name, datatype).newbyteorder("=")
    kinds = {type(value) for value in values}
    expected = {bool} if dtype.kind == "b" else {int, float}
    if not kinds <= expected:
        came = ", ".join(sorted(kind.__name__ for kind in kinds - expected))
        raise InputMismatch(f"input {name}: data: expected {datatype}, got {came}")
    if dtype.kind in "iu":
        return _integers(name, values, dtype)
    if dtype.kind == "b":
        return np.array(values, dtype)
    try:
        return cast(np.array(values, np.float64), TensorSpec(name, dtype.name, None))
    except OverflowError:
        raise InputMismatch(f"input {name}: data: a number is beyond the range of {datatype}") from None


def _integers(name: str, values: list[Any], dtype: np.dtype[Any]) -> Array:
    fraction = next((value for value in values if isinstance(value, float) and not value.is_integer()), None)
    if fraction is not None:
        raise InputMismatch(f"input {name}: data: expected whole numbers, got {fraction}")
    try:
        return np.array([int(value) for value in values], dtype)
    except OverflowError:
        limits = np.iinfo(dtype)
        raise InputMismatch(
            f"input {name}: data: expected whole numbers from {limits.min} to {limits.max}, "
            f"got {min(values)} to {max(values)}"
        ) from None
