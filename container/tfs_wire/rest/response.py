"""Named arrays -> the body of a predict answer, row by row or by column."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfs_wire import dtypes
from tfs_wire.rest.writer import INDENT, decimals, string, to_bytes
from tfs_wire.status import invalid

Array = np.ndarray[Any, np.dtype[Any]]

BYTES_SUFFIX = "_bytes"
"""String outputs whose name ends like this are written as ``{"b64": ...}``."""


def write_predict(outputs: Mapping[str, Array], by_row: bool) -> bytes:
    """Return ``{"predictions": [...]}`` (``by_row``) or ``{"outputs": ...}`` as TensorFlow Serving writes it.

    Row form needs the same first dimension in every output, at least 1. Raises INVALID_ARGUMENT if the
    outputs cannot be written so, or hold a type that JSON answers do not carry (half, complex64, ...).
    """
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    ordered = {name: outputs[name] for name in sorted(outputs)}
    return to_bytes(_by_row(ordered) if by_row else _by_column(ordered))


# ---------------------------------------------------------------------- rows


def _batch_size(outputs: Mapping[str, Array]) -> int:
    batch = 0
    for name, array in outputs.items():
        if array.ndim == 0:
            raise invalid(f"Tensor name: {name} has no shape information ")
        size = array.shape[0]
        if size < 1:
            raise invalid(f"Tensor name: {name} has invalid batch size: {size}")
        if batch not in (0, size):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {size} expecting: {batch}")
        batch = size
    return batch


def _by_row(outputs: Mapping[str, Array]) -> str:
    batch = _batch_size(outputs)
    if len(outputs) == 1:
        name, array = next(iter(outputs.items()))
        rows = ", ".join(_rows(array, _leaves(name, array, 1 + array.ndim)))
        return f'{{\n{INDENT}"predictions": [{rows}\n{INDENT}]\n}}'
    columns = {name: _rows(array, _leaves(name, array, 2 + array.ndim)) for name, array in outputs.items()}
    items = (_row_object(columns, index) for index in range(batch))
    return f'{{\n{INDENT}"predictions": [\n{2 * INDENT}' + f",\n{2 * INDENT}".join(items) + f"\n{INDENT}]\n}}"


def _row_object(columns: Mapping[str, list[str]], index: int) -> str:
    members = (f"{3 * INDENT}{string(name)}: {rows[index]}" for name, rows in columns.items())
    return "{\n" + ",\n".join(members) + f"\n{2 * INDENT}}}"


def _rows(array: Array, leaves: list[str]) -> list[str]:
    """Join leaves into one text for each index of the first dimension, lists on one line."""
    texts = leaves
    for axis in range(array.ndim - 1, 0, -1):
        size = array.shape[axis]
        count = int(np.prod(array.shape[:axis]))
        texts = [f"[{', '.join(texts[i * size : (i + 1) * size])}]" for i in range(count)]
    return texts


# -------------------------------------------------------------------- columns


def _by_column(outputs: Mapping[str, Array]) -> str:
    if len(outputs) == 1:
        name, array = next(iter(outputs.items()))
        return f'{{\n{INDENT}"outputs": {_nested(array, _leaves(name, array, 1 + array.ndim), 1)}\n}}'
    members = (
        f"{2 * INDENT}{string(name)}: {_nested(array, _leaves(name, array, 2 + array.ndim), 2)}"
        for name, array in outputs.items()
    )
    return f'{{\n{INDENT}"outputs": {{\n' + ",\n".join(members) + f"\n{INDENT}}}\n}}"


def _nested(array: Array, leaves: list[str], level: int) -> str:
    """Join leaves into nested lists with one item on a line."""
    texts = leaves
    for axis in range(array.ndim - 1, -1, -1):
        size, count = array.shape[axis], int(np.prod(array.shape[:axis]))
        inner, outer = "\n" + INDENT * (level + axis + 1), "\n" + INDENT * (level + axis)
        if size == 0:
            texts = ["[]"] * count
            continue
        glue = "," + inner
        texts = [f"[{inner}{glue.join(texts[i * size : (i + 1) * size])}{outer}]" for i in range(count)]
    return texts[0]


# --------------------------------------------------------------------- values


def _leaves(name: str, array: Array, level: int) -> list[str]:
    """Return the text of every value; ``level`` is how deep the value's own line is indented."""
    flat = array.reshape(-1)
    if not flat.size:
        return []
    number = dtypes.number_of(array.dtype)
    if number in (dtypes.DT_FLOAT, dtypes.DT_DOUBLE):
        return decimals(flat)
    if number in _INTEGERS:
        return [str(value) for value in flat.tolist()]
    if number == dtypes.DT_BOOL:
        return ["true" if value else "false" for value in flat.tolist()]
    if number == dtypes.DT_STRING:
        return _strings(flat.tolist(), name.endswith(BYTES_SUFFIX), level)
    raise invalid(f"Failed to write JSON value for tensor type: {dtypes.name_of(number)}")


_INTEGERS = {
    *(dtypes.DT_INT32, dtypes.DT_UINT8, dtypes.DT_INT16, dtypes.DT_INT8),
    *(dtypes.DT_INT64, dtypes.DT_UINT32, dtypes.DT_UINT64),
}


def _strings(values: list[bytes], as_base64: bool, level: int) -> list[str]:
    if not as_base64:
        return [string(value.decode("utf-8", "surrogateescape")) for value in values]
    head, tail = "{\n" + INDENT * (level + 1) + '"b64": "', '"\n' + INDENT * level + "}"
    return [f"{head}{base64.b64encode(value).decode()}{tail}" for value in values]
