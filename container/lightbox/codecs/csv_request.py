"""text/csv: a row an instance, no header.

A row holds the elements of one instance: N of them for a model of [batch, N], one for a model of [batch].
Fields of numbers may be quoted or not; a field for a string model is text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from lightbox.codecs.base import DecodedRequest, Target
from lightbox.codecs.media_type import ContentType
from lightbox.codecs.tensors import cast, numpy_dtype, only_input, string_tensor
from lightbox.codecs.text import as_text
from lightbox.errors import InputMismatch, MalformedBody
from lightbox.model_spec import Array, TensorSpec, describe_shape

_NUMBER = re.compile(r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)\s*", re.ASCII | re.IGNORECASE)
_INFINITY = re.compile(r"\s*[+-]?inf(?:inity)?\s*", re.IGNORECASE)
_BOOLS = {"true": True, "false": False, "1": True, "0": False}


class CsvCodec:
    """Reads rows of numbers or text for a model with one input; a field may be as long as a body."""

    def __init__(self, max_body_mb: int) -> None:
        csv.field_size_limit(max_body_mb << 20)  # for the whole process; 131072 without it

    def decode(self, body: bytes, content_type: ContentType, target: Target) -> DecodedRequest:
        """See RequestCodec.decode."""
        signature = target.find_signature(None)
        spec = only_input(signature, "text/csv")
        with target.clock.stage("decode"):
            rows = _rows(as_text(body, content_type))
            if content_type.parameters.get("header", "").lower() == "present":
                rows = rows[1:]
            return DecodedRequest(signature, {spec.name: _tensor(rows, spec)})


def _rows(text: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise MalformedBody(f"the CSV cannot be read: {error}") from None


def _tensor(rows: list[list[str]], spec: TensorSpec) -> Array:
    if not rows:
        raise MalformedBody("the CSV has no row")
    columns = len(rows[0])
    if set(map(len, rows)) != {columns}:
        wrong = next(index for index, row in enumerate(rows) if len(row) != columns)
        raise MalformedBody(f"row {wrong + 1} has {len(rows[wrong])} fields, row 1 has {columns}")
    shape = _shape(len(rows), columns, spec)
    flat = list(chain.from_iterable(rows))
    if spec.is_string:
        return string_tensor(field.encode() for field in flat).reshape(shape)
    return _numbers(flat, columns, spec).reshape(shape)


def _shape(rows: int, columns: int, spec: TensorSpec) -> tuple[int, ...]:
    rank = (1 if columns == 1 else 2) if spec.shape is None else len(spec.shape)
    if rank not in (1, 2):
        raise InputMismatch(
            f"input {spec.name}: text/csv carries rows for a tensor of rank 1 or 2, the model takes "
            f"{describe_shape(spec.shape or ())}; send application/json or application/x-npy"
        )
    if rank == 1 and columns != 1:
        raise InputMismatch(f"input {spec.name}: expected one field a row for {spec}, got {columns}")
    return (rows,) if rank == 1 else (rows, columns)


def _numbers(flat: list[str], columns: int, spec: TensorSpec) -> Array:
    kind = numpy_dtype(spec).kind
    if kind == "b":
        return np.array(_converted(lambda field: _BOOLS[field.strip().lower()], flat, columns, spec), bool)
    if kind == "c":
        raise InputMismatch(f"input {spec.name}: text/csv cannot carry {spec.dtype}")
    _check_plain(flat, columns, spec)
    if kind in "iu":
        whole = _integers(flat, spec)
        if whole is not None:
            return whole
    numbers = np.array(_converted(float, flat, columns, spec), np.float64)
    for index in np.flatnonzero(np.isinf(numbers)).tolist():
        if not _INFINITY.fullmatch(flat[index]):
            raise _bad_field(index, flat, columns, spec)
    return cast(numbers, spec)


def _check_plain(flat: list[str], columns: int, spec: TensorSpec) -> None:
    """Python's numbers may also hold underscores and the digits of any script."""
    text = "".join(flat)
    if "_" in text or not text.isascii():
        for index, field in enumerate(flat):
            if not _NUMBER.fullmatch(field):
                raise _bad_field(index, flat, columns, spec)


def _integers(flat: list[str], spec: TensorSpec) -> Array | None:
    """Return whole numbers exactly, None where a field has a point or an exponent."""
    try:
        values = list(map(int, flat))
    except ValueError:
        return None
    limits = np.iinfo(numpy_dtype(spec))
    if not limits.min <= min(values) <= max(values) <= limits.max:
        raise InputMismatch(f"input {spec.name}: expected {spec.dtype} from {limits.min} to {limits.max}")
    return np.array(values, numpy_dtype(spec))


def _converted(
    convert: Callable[[str], bool | float], flat: list[str], columns: int, spec: TensorSpec
) -> Iterable[bool | float]:
    try:
        return list(map(convert, flat))
    except (ValueError, KeyError):
        for index, field in enumerate(flat):
            try:
                convert(field)
            except (ValueError, KeyError):
                raise _bad_field(index, flat, columns, spec) from None
        raise


def _bad_field(index: int, flat: list[str], columns: int, spec: TensorSpec) -> MalformedBody:
    row, column = divmod(index, columns)
    return MalformedBody(
        f"row {row + 1}, field {column + 1}: expected {spec.dtype} for the input {spec.name}, got {flat[index][:40]!r}"
    )
