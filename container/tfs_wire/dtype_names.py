"""TensorFlow's dtypes, their names and their numpy counterparts."""

from __future__ import annotations

import numpy as np

from tfs_wire.messages import types_pb2

NAME_OF: dict[int, str] = {
    types_pb2.DT_BOOL: "bool",
    types_pb2.DT_UINT8: "uint8",
    types_pb2.DT_UINT16: "uint16",
    types_pb2.DT_UINT32: "uint32",
    types_pb2.DT_UINT64: "uint64",
    types_pb2.DT_INT8: "int8",
    types_pb2.DT_INT16: "int16",
    types_pb2.DT_INT32: "int32",
    types_pb2.DT_INT64: "int64",
    types_pb2.DT_HALF: "float16",
    types_pb2.DT_FLOAT: "float32",
    types_pb2.DT_DOUBLE: "float64",
    types_pb2.DT_COMPLEX64: "complex64",
    types_pb2.DT_COMPLEX128: "complex128",
    types_pb2.DT_BFLOAT16: "bfloat16",
    types_pb2.DT_STRING: "string",
}
"""DataType number to name. bfloat16 has no numpy dtype of its own; string is an object array of bytes."""

NUMBER_OF: dict[str, int] = {name: number for number, name in NAME_OF.items()}

_NUMPY_OF: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(object if name == "string" else name) for name in NUMBER_OF if name != "bfloat16"
}


def dtype_name(number: int) -> str:
    """Return the name of a DataType number: ``float32``, ``string``; in capitals, as ``DT_QINT8``, if odd."""
    if number in NAME_OF:
        return NAME_OF[number]
    try:
        return str(types_pb2.DataType.Name(number))
    except ValueError:
        return f"DT_{number}"


def numpy_dtype(name: str) -> np.dtype[np.generic] | None:
    """Return the numpy dtype of a TensorFlow dtype's name, or None where numpy has none."""
    return _NUMPY_OF.get(name)


def dtype_number(dtype: np.dtype[np.generic]) -> int | None:
    """Return the DataType number of a numpy dtype (objects and byte strings are DT_STRING), or None."""
    if dtype.kind in "OSU":
        return NUMBER_OF["string"]
    return NUMBER_OF.get(dtype.name)
