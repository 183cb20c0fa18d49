"""Named arrays -> the body of a predict, classify or regress response, in pieces: row by row, or by column.

Every value comes with what stands between it and the one before.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from model_server.rest_json import floats
from tfs_wire import dtypes
from tfs_wire.messages import classification_pb2, regression_pb2
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


Bytes = npt.NDArray[np.uint8]

_FIRST_MARK = 0x80
"""Marks are no ASCII, so that neither numbers nor the text between them hold any."""

_INTEGERS = {
    *(dtypes.DT_INT32, dtypes.DT_UINT8, dtypes.DT_INT16, dtypes.DT_INT8),
    *(dtypes.DT_INT64, dtypes.DT_UINT32, dtypes.DT_UINT64),
}


class Brackets:
    """What stands around and between the values of an array.

    ``between[n]`` stands between two values where n lists end and n begin, ``between[-1]`` before the
    first value; ``end`` comes after the last.
    """

    def __init__(self, between: Sequence[str], end: str) -> None:
        self.between = [to_bytes(text) for text in between]
        self.end = to_bytes(end)


def in_rows(depth: int, between_rows: str) -> Brackets:
    """Return the brackets of lists on one line, without those of the outermost, whose items are the rows."""
    inner = depth - 1
    between = ["]" * ended + ", " + "[" * ended for ended in range(inner)]
    return Brackets([*between, "]" * inner + between_rows + "[" * inner, "[" * inner], "]" * inner)


def on_lines(depth: int, level: int) -> Brackets:
    """Return the brackets of lists with one item on a line, the outermost indented by ``level``."""
    lines = ["\n" + INDENT * (level + inner) for inner in range(depth + 1)]
    opening, closing = [f"[{line}" for line in lines[1:]], [f"{line}]" for line in lines[:-1]]
    between = []
    for ended in range(depth):
        kept = depth - ended
        between.append("".join(reversed(closing[kept:])) + "," + lines[kept] + "".join(opening[kept:]))
    return Brackets([*between, "".join(opening)], "".join(reversed(closing)))


def pieces(array: Array, brackets: Brackets) -> Iterator[bytes]:
    """Yield the text of an array of numbers or bools that is not empty; StatusError for other dtypes."""
    number = dtypes.number_of(array.dtype)
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1)
    for start in range(0, flat.size, floats.CHUNK):
        values = flat[start : start + floats.CHUNK]
        text = _marked(values, number, _marks(array.shape, start, values.size))
        for ended, between in enumerate(brackets.between):
            text = text.replace(bytes([_FIRST_MARK + ended]), between)
        yield text
    yield brackets.end


def joined(texts: Sequence[str], shape: Sequence[int], brackets: Brackets) -> bytes:
    """Return the text of an array whose values are texts already."""
    marks = _marks(shape, 0, len(texts)) - _FIRST_MARK
    found = zip(marks.tolist(), texts, strict=True)
    return (
        b"".join(chain.from_iterable((brackets.between[ended], to_bytes(text)) for ended, text in found)) + brackets.end
    )


def _marks(shape: Sequence[int], start: int, count: int) -> Bytes:
    """Return a mark for each value: how many lists begin with it."""
    marks = np.full(count, _FIRST_MARK, np.uint8)
    size = 1
    for length in reversed(shape):
        size *= length
        marks[-start % size :: size] += 1
    return marks


def _marked(values: Array, number: int, marks: Bytes) -> bytes:
    if number == dtypes.DT_FLOAT:
        return floats.texts(values, marks)
    if number == dtypes.DT_DOUBLE:
        text = bytearray(to_bytes("," + ",".join(decimals(values))))
    elif number == dtypes.DT_BOOL or number in _INTEGERS:
        text = bytearray(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY))
        text[0] = ord(",")
        del text[-1]
    else:
        raise invalid(f"Failed to write JSON value for tensor type: {dtypes.name_of(number)}")
    octets = np.frombuffer(text, np.uint8)
    octets[octets == ord(",")] = marks
    return bytes(text)


def _decimal(value: float) -> str:
    return decimals(np.array([value], np.float32))[0]


def write_classifications(result: classification_pb2.ClassificationResult) -> bytes:
    """Return ``{"results": [[["label", score], ...], ...]}``."""
    if not result.classifications:
        raise invalid("Cannot convert empty ClassificationResults to JSON")
    rows = (
        "[" + ", ".join(f"[{string(item.label)}, {_decimal(item.score)}]" for item in row.classes) + "]"
        for row in result.classifications
    )
    return to_bytes(f'{{\n{INDENT}"results": [{", ".join(rows)}\n{INDENT}]\n}}')


def write_regressions(result: regression_pb2.RegressionResult) -> bytes:
    """Return ``{"results": [value, ...]}``."""
    if not result.regressions:
        raise invalid("Cannot convert empty RegressionResults to JSON")
    values = ", ".join(decimals(np.array([item.value for item in result.regressions], np.float32)))
    return to_bytes(f'{{\n{INDENT}"results": [{values}]\n}}')
