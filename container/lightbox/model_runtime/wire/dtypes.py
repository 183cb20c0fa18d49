"""Dtypes: their names in TensorFlow, numpy and the Open Inference Protocol, and their fields of a TensorProto."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

MAX_DIMENSIONS = 64
"""Most dimensions of a tensor."""
OWN_ROWS = "own rows"
"""The embedded model server's name for an output's open first dimension that does not count the rows of the inputs."""


class DTypeInfo(NamedTuple):
    """One row of the table; the Open Inference Protocol's name is empty if it has none."""

    number: int
    name: str
    """In TensorFlow's error texts."""
    field: int
    """Of a TensorProto."""
    numpy: str
    protocol: str = ""


FLOAT_VAL, DOUBLE_VAL, INT_VAL, STRING_VAL, SCOMPLEX_VAL, INT64_VAL = 5, 6, 7, 8, 9, 10
BOOL_VAL, DCOMPLEX_VAL, HALF_VAL, UINT32_VAL, UINT64_VAL, FLOAT8_VAL = 11, 12, 13, 16, 17, 18
VARINTS = {INT_VAL, INT64_VAL, BOOL_VAL, HALF_VAL, UINT32_VAL, UINT64_VAL}
"""The fields of protobuf's numbers of varying length."""

DT_FLOAT, DT_DOUBLE, DT_INT32, DT_UINT8, DT_INT16, DT_INT8, DT_STRING = 1, 2, 3, 4, 5, 6, 7
DT_INT64, DT_BOOL, DT_BFLOAT16, DT_UINT16, DT_HALF, DT_UINT32, DT_UINT64 = 9, 10, 14, 17, 19, 22, 23

# Quantized types are records of one field in numpy, as in TensorFlow: the field's name distinguishes them from plain
# integers. The ml_dtypes package has types that numpy lacks.
_TABLE = [
    DTypeInfo(1, "float", FLOAT_VAL, "float32", "FP32"),
    DTypeInfo(2, "double", DOUBLE_VAL, "float64", "FP64"),
    DTypeInfo(3, "int32", INT_VAL, "int32", "INT32"),
    DTypeInfo(4, "uint8", INT_VAL, "uint8", "UINT8"),
    DTypeInfo(5, "int16", INT_VAL, "int16", "INT16"),
    DTypeInfo(6, "int8", INT_VAL, "int8", "INT8"),
    DTypeInfo(7, "string", STRING_VAL, "object", "BYTES"),
    DTypeInfo(8, "complex64", SCOMPLEX_VAL, "complex64"),
    DTypeInfo(9, "int64", INT64_VAL, "int64", "INT64"),
    DTypeInfo(10, "bool", BOOL_VAL, "bool", "BOOL"),
    DTypeInfo(11, "qint8", INT_VAL, "record:int8"),
    DTypeInfo(12, "quint8", INT_VAL, "record:uint8"),
    DTypeInfo(13, "qint32", INT_VAL, "record:int32"),
    DTypeInfo(14, "bfloat16", HALF_VAL, "ml_dtypes", "BF16"),
    DTypeInfo(15, "qint16", INT_VAL, "record:int16"),
    DTypeInfo(16, "quint16", INT_VAL, "record:uint16"),
    DTypeInfo(17, "uint16", INT_VAL, "uint16", "UINT16"),
    DTypeInfo(18, "complex128", DCOMPLEX_VAL, "complex128"),
    DTypeInfo(19, "half", HALF_VAL, "float16", "FP16"),
    DTypeInfo(22, "uint32", UINT32_VAL, "uint32", "UINT32"),
    DTypeInfo(23, "uint64", UINT64_VAL, "uint64", "UINT64"),
    DTypeInfo(24, "float8_e5m2", FLOAT8_VAL, "ml_dtypes"),
    DTypeInfo(25, "float8_e4m3fn", FLOAT8_VAL, "ml_dtypes"),
    DTypeInfo(29, "int4", INT_VAL, "ml_dtypes"),
    DTypeInfo(30, "uint4", INT_VAL, "ml_dtypes"),
]
_BY_NUMBER = {row.number: row for row in _TABLE}
# Not carried between processes, but named in error texts.
_ONLY_NAMES = {0: "INVALID", 20: "resource", 21: "variant"}
_REF_OFFSET = 100
LARGEST_FLOAT = {"float16": 65504.0, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}
"""By numpy's name."""


def info(number: int) -> DTypeInfo | None:
    """Return the row for a ``DataType`` number, or None for a type that cannot be sent."""
    return _BY_NUMBER.get(number)


def name_of(number: int) -> str:
    """Return the name that TensorFlow prints, such as "float", "half" or "float_ref"."""
    if number in _BY_NUMBER:
        return _BY_NUMBER[number].name
    if number - _REF_OFFSET in _BY_NUMBER:
        return _BY_NUMBER[number - _REF_OFFSET].name + "_ref"
    return _ONLY_NAMES.get(number, f"unknown dtype enum ({number})")


@cache
def numpy_dtype(number: int) -> np.dtype[Any]:
    """Return the numpy dtype; raise KeyError for a type that cannot be sent (strings are ``object``)."""
    import numpy as np  # late: names need no numpy

    row = _BY_NUMBER[number]
    if row.numpy == "ml_dtypes":
        import ml_dtypes

        extra: np.dtype[Any] = np.dtype(getattr(ml_dtypes, row.name))
        return extra
    if row.numpy.startswith("record:"):
        return np.dtype([(row.name, row.numpy.removeprefix("record:"))])
    return np.dtype(row.numpy)


@cache
def number_of(dtype: np.dtype[Any]) -> int:
    """Return the ``DataType`` number of a numpy dtype (text and bytes: string); KeyError if it has none."""
    if dtype.kind in "SUO":
        return DT_STRING
    return _NUMBERS[dtype.names[0] if dtype.names else dtype.name]


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as TensorFlow's error texts have it, such as "[1,3]"."""
    return f"[{','.join(map(str, shape))}]"


def numpy_name(number: int) -> str:
    """Return numpy's name of a dtype, such as "float32" or "float16"; strings are "string"."""
    row = _BY_NUMBER.get(number)
    return row.numpy if row is not None and _is_plain(row) else name_of(number)


def _is_plain(row: DTypeInfo) -> bool:
    """Return whether numpy has the type itself, with numbers as elements."""
    return row.numpy not in ("ml_dtypes", "object") and not row.numpy.startswith("record:")


_NUMBERS = {numpy_name(row.number): row.number for row in _TABLE}
PLAIN = {row.numpy: row.number for row in _TABLE if _is_plain(row)}
"""The numbers of the dtypes that are numbers to numpy itself, by numpy's name."""
PROTOCOL_NAMES = {numpy_name(row.number): row.protocol for row in _TABLE if row.protocol}
"""The Open Inference Protocol's names, by numpy's."""
