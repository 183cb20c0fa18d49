"""Named arrays -> the body of a predict answer, row by row or by column."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from tfs_wire import dtypes
from tfs_wire.rest.nested import Brackets, in_rows, joined, on_lines, pieces
from tfs_wire.rest.writer import INDENT, string, to_bytes
from tfs_wire.status import invalid

Array = np.ndarray[Any, np.dtype[Any]]

BYTES_SUFFIX = "_bytes"
"""String outputs whose name ends like this are written as ``{"b64": ...}``."""


def write_predict(outputs: Mapping[str, Array], by_row: bool) -> bytes:
    """Return ``{"predictions": [...]}`` (``by_row``) or ``{"outputs": ...}`` as TensorFlow Serving writes it.

    Row form needs the same first dimension in every output, at least 1. Raises INVALID_ARGUMENT if the
    outputs cannot be written so, or hold a type that JSON answers do not carry (half, complex64, ...).
    """
    return b"".join(predict_pieces(outputs, by_row))


def predict_pieces(outputs: Mapping[str, Array], by_row: bool) -> Iterator[bytes]:
    """Yield the same in pieces: a long answer need not be in one piece to be sent."""
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    ordered = {name: outputs[name] for name in sorted(outputs)}
    return _gathered(_by_row(ordered) if by_row else _by_column(ordered))


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join short parts with their neighbours."""
    short: list[bytes] = []
    for part in parts:
        short.append(part)
        if len(part) >= _LONG_PART or len(short) >= _MANY_PARTS:
            yield b"".join(short)
            short.clear()
    yield b"".join(short)


_LONG_PART, _MANY_PARTS = 1 << 16, 1 << 12


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


def _by_row(outputs: Mapping[str, Array]) -> Iterator[bytes]:
    batch = _batch_size(outputs)
    if len(outputs) == 1:
        name, array = next(iter(outputs.items()))
        yield to_bytes(f'{{\n{INDENT}"predictions": [')
        yield from _pieces(name, array, lambda depth: in_rows(depth, ", "), 1 + array.ndim)
        yield to_bytes(f"\n{INDENT}]\n}}")
        return
    columns = {to_bytes(f"{3 * INDENT}{string(name)}: "): _rows(name, array) for name, array in outputs.items()}
    before = f'{{\n{INDENT}"predictions": ['
    for index in range(batch):
        before += f"\n{2 * INDENT}{{\n"
        for head, rows in columns.items():
            yield to_bytes(before) + head
            yield from rows[index]
            before = ",\n"
        before = f"\n{2 * INDENT}}},"
    yield to_bytes(f"\n{2 * INDENT}}}\n{INDENT}]\n}}")


def _rows(name: str, array: Array) -> list[list[bytes]]:
    """Return one text, in pieces, for each index of the first dimension, lists on one line."""
    level, batch = 2 + array.ndim, array.shape[0]
    if batch > 1 and array.size // batch < _LONG_ROW:
        text = b"".join(_pieces(name, array, lambda depth: in_rows(depth, _ROW_MARK), level))
        return [[row] for row in text.split(_ROW_MARK.encode())]
    rows = (array[index : index + 1] for index in range(batch))
    return [list(_pieces(name, row, lambda depth: in_rows(depth, ""), level)) for row in rows]


_LONG_ROW = 1 << 14
"""Shorter rows are not worth the calls that each one takes if it is written alone."""

_ROW_MARK = "\0"
"""No JSON text holds it."""


# -------------------------------------------------------------------- columns


def _by_column(outputs: Mapping[str, Array]) -> Iterator[bytes]:
    if len(outputs) == 1:
        name, array = next(iter(outputs.items()))
        yield to_bytes(f'{{\n{INDENT}"outputs": ')
        yield from _pieces(name, array, lambda depth: on_lines(depth, 1), 1 + array.ndim)
        yield b"\n}"
        return
    before = f'{{\n{INDENT}"outputs": {{\n'
    for name, array in outputs.items():
        yield to_bytes(f"{before}{2 * INDENT}{string(name)}: ")
        yield from _pieces(name, array, lambda depth: on_lines(depth, 2), 2 + array.ndim)
        before = ",\n"
    yield to_bytes(f"\n{INDENT}}}\n}}")


# --------------------------------------------------------------------- values


def _pieces(name: str, array: Array, brackets: Callable[[int], Brackets], level: int) -> Iterator[bytes]:
    """Yield the text of an array; ``level`` is how deep a value's own line is indented."""
    if not array.size:
        kept = array.shape[: array.shape.index(0)]
        yield joined(["[]"] * math.prod(kept), kept, brackets(len(kept)))
    elif dtypes.number_of(array.dtype) == dtypes.DT_STRING:
        texts = _strings(array.reshape(-1).tolist(), name.endswith(BYTES_SUFFIX), level)
        yield joined(texts, array.shape, brackets(array.ndim))
    else:
        yield from pieces(array, brackets(array.ndim))


def _strings(values: list[bytes], as_base64: bool, level: int) -> list[str]:
    if not as_base64:
        return [string(value.decode("utf-8", "surrogateescape")) for value in values]
    head, tail = "{\n" + INDENT * (level + 1) + '"b64": "', '"\n' + INDENT * level + "}"
    return [f"{head}{base64.b64encode(value).decode()}{tail}" for value in values]
