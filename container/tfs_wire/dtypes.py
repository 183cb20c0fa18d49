"""Which numpy dtype a TensorFlow dtype is, what it is called, and which field of a TensorProto holds it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

MAX_DIMENSIONS = 64
"""Of a tensor that a server takes."""


class DTypeInfo(NamedTuple):
    """One row of the table: enum number, name in error texts, TensorProto field number, numpy type."""

    number: int
    name: str
    field: int
    numpy: str


FLOAT_VAL, DOUBLE_VAL, INT_VAL, STRING_VAL, SCOMPLEX_VAL, INT64_VAL = 5, 6, 7, 8, 9, 10
BOOL_VAL, DCOMPLEX_VAL, HALF_VAL, UINT32_VAL, UINT64_VAL, FLOAT8_VAL = 11, 12, 13, 16, 17, 18

DT_FLOAT, DT_DOUBLE, DT_INT32, DT_UINT8, DT_INT16, DT_INT8, DT_STRING = 1, 2, 3, 4, 5, 6, 7
DT_INT64, DT_BOOL, DT_BFLOAT16, DT_HALF, DT_UINT32, DT_UINT64 = 9, 10, 14, 19, 22, 23

# Quantized types are records of one field in numpy, as TensorFlow itself has them: the name of the
# field tells them from the plain integers. Types that numpy lacks come from the ml_dtypes package.
_TABLE = [
    DTypeInfo(1, "float", FLOAT_VAL, "float32"),
    DTypeInfo(2, "double", DOUBLE_VAL, "float64"),
    DTypeInfo(3, "int32", INT_VAL, "int32"),
    DTypeInfo(4, "uint8", INT_VAL, "uint8"),
    DTypeInfo(5, "int16", INT_VAL, "int16"),
    DTypeInfo(6, "int8", INT_VAL, "int8"),
    DTypeInfo(7, "string", STRING_VAL, "object"),
    DTypeInfo(8, "complex64", SCOMPLEX_VAL, "complex64"),
    DTypeInfo(9, "int64", INT64_VAL, "int64"),
    DTypeInfo(10, "bool", BOOL_VAL, "bool"),
    DTypeInfo(11, "qint8", INT_VAL, "record:int8"),
    DTypeInfo(12, "quint8", INT_VAL, "record:uint8"),
    DTypeInfo(13, "qint32", INT_VAL, "record:int32"),
    DTypeInfo(14, "bfloat16", HALF_VAL, "ml_dtypes"),
    DTypeInfo(15, "qint16", INT_VAL, "record:int16"),
    DTypeInfo(16, "quint16", INT_VAL, "record:uint16"),
    DTypeInfo(17, "uint16", INT_VAL, "uint16"),
    DTypeInfo(18, "complex128", DCOMPLEX_VAL, "complex128"),
    DTypeInfo(19, "half", HALF_VAL, "float16"),
    DTypeInfo(22, "uint32", UINT32_VAL, "uint32"),
    DTypeInfo(23, "uint64", UINT64_VAL, "uint64"),
    DTypeInfo(24, "float8_e5m2", FLOAT8_VAL, "ml_dtypes"),
    DTypeInfo(25, "float8_e4m3fn", FLOAT8_VAL, "ml_dtypes"),
    DTypeInfo(29, "int4", INT_VAL, "ml_dtypes"),
    DTypeInfo(30, "uint4", INT_VAL, "ml_dtypes"),
]
_BY_NUMBER = {row.number: row for row in _TABLE}
# Not carried between processes, but named in error texts.
_ONLY_NAMES = {0: "INVALID", 20: "resource", 21: "variant"}
_REF_OFFSET = 100


def info(number: int) -> DTypeInfo | None:
    """Return the row for a ``DataType`` number, or None for a type that cannot travel."""
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
    """Return the numpy dtype; raise KeyError for a type that cannot travel (strings are ``object``)."""
    import numpy as np  # late: who only wants names stays without it

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
    if dtype.names:
        return next(row.number for row in _TABLE if row.name == dtype.names[0])
    plain = {row.numpy if row.numpy not in {"ml_dtypes", "object"} else row.name: row for row in _TABLE}
    return plain[dtype.name].number


def numpy_name(number: int) -> str:
    """Return a dtype's name as numpy has it, such as "float32" or "float16"; strings are "string"."""
    row = _BY_NUMBER.get(number)
    if row is None or row.numpy == "ml_dtypes" or row.numpy.startswith("record:"):
        return name_of(number)
    return "string" if number == DT_STRING else row.numpy
