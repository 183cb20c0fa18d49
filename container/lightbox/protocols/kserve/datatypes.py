"""The protocol's datatypes, beside TensorFlow's and numpy's names of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lightbox.errors import InputMismatch
from lightbox.model_spec import Array, TensorSpec

BYTES = "BYTES"
_NUMPY_NAME = {
    "BOOL": "bool",
    **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
_DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(numpy).newbyteorder("<") for name, numpy in _NUMPY_NAME.items()}
_DATATYPE_OF = {numpy: name for name, numpy in _NUMPY_NAME.items()} | {"string": BYTES, "bfloat16": "BF16"}
MAX_DIMENSIONS = 32


def numeric_dtype(name: str, datatype: str) -> np.dtype[Any]:
    """Return the little-endian numpy dtype of a tensor of numbers; raise InputMismatch for an unknown datatype."""
    if datatype not in _DTYPES:
        raise InputMismatch(
            f"input {name}: expected one of the datatypes {', '.join(_DTYPES)}, {BYTES}; got {datatype[:40]!r}"
        )
    return _DTYPES[datatype]


def datatype_of(array: Array) -> str:
    """Return the datatype that an output has; one without a name here is told as numpy does."""
    return BYTES if array.dtype.kind in "OSU" else _DATATYPE_OF.get(array.dtype.name, array.dtype.name.upper())


def described(spec: TensorSpec) -> dict[str, Any]:
    """Return an input's or output's metadata; unknown dimensions, and an unknown rank, are -1."""
    shape = (None,) if spec.shape is None else spec.shape
    datatype = _DATATYPE_OF.get(spec.dtype, spec.dtype.upper())
    return {"name": spec.name, "datatype": datatype, "shape": [-1 if size is None else size for size in shape]}


def checked_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return a tensor's shape; raise InputMismatch for what is none."""
    sizes: Sequence[Any] = shape if isinstance(shape, list | tuple) else [None]
    if len(sizes) > MAX_DIMENSIONS or any(type(size) is not int or not 0 <= size < 2**63 for size in sizes):
        raise InputMismatch(f"input {name}: expected a shape such as [1,224,224,3], got {str(shape)[:80]}")
    return tuple(sizes)


def from_buffer(name: str, datatype: str, shape: tuple[int, ...], data: bytes | memoryview) -> Array:
    """Return the numbers of a blob, little-endian and row-major; raise InputMismatch when its size is another."""
    dtype = numeric_dtype(name, datatype)
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise InputMismatch(f"input {name}: {datatype} of shape {list(shape)} is {wanted} bytes, got {len(data)} bytes")
    if datatype == "BOOL" and len(data) and max(data) > 1:
        raise InputMismatch(f"input {name}: expected 0 or 1 for each BOOL")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def to_buffer(array: Array) -> bytes:
    """Return the blob of an output of numbers: little-endian, row-major."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
