"""text/csv for requests and responses: one row for each instance, without a header.

A row holds the elements of one instance: N of them for a model of [batch, N], one for a model of [batch].
Fields of numbers may be quoted or not; a field for a string model is text.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import ClassVar

import numpy as np
from typing_extensions import override

from lightbox.base.errors import InputMismatch, MalformedBody
from lightbox.base.request_context import STRING_BYTES, RequestContext
from lightbox.codecs.base import Images, Parsed, Reader, Response, Writer
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.json_text import whole_text
from lightbox.codecs.media_type import ContentType, as_utf8
from lightbox.model.casting import cast, numbers, numpy_dtype, only_input, string_tensor
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, Method, ModelCall, Prediction, SignatureSpec, TensorSpec, describe_shape
from lightbox.openapi.schemas import TEXT, Schema

_FIELDS_AT_ONCE = 1 << 14
_FIELD_BYTES = 8
"""Bytes of memory for the place of a field in its row, which may be the whole body."""
_CONTROLS = re.compile(r"[^\t-\r -~]")
"""Longest field in an error; Python's repr would be four times as long."""
_BOOLS = {"true": True, "false": False, "1": True, "0": False}


class CsvCodec(Reader, Writer):
    """Requests: rows of numbers or text for a model with one input. Responses: one line for each row of one output.

    A field may be as long as a body. Numbers are written as in JSON, without a header row.
    """

    media_types: ClassVar[tuple[str, ...]] = ("text/csv",)
    schema: ClassVar[Schema] = TEXT
    single: ClassVar[bool] = True

    @override
    def __init__(self, images: Images, options: CodecOptions) -> None:
        super().__init__(images, options)
        csv.field_size_limit(options.max_body_mb << 20)  # for the whole process; the default is 131072

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            spec = only_input(signature, "text/csv")
            _check_kind(spec)
            with context.stage("decode"):
                commas = body.count(b",")
                most = commas + body.count(b"\n") + body.count(b"\r") + 1
                itemsize = STRING_BYTES if spec.is_string else numpy_dtype(spec).itemsize
                context.memory.hold(3 * len(body) + commas * _FIELD_BYTES + most * itemsize, "the CSV")
                rows = _rows(as_utf8(body, content_type))
                if content_type.parameters.get("header", "").lower() == "present":
                    next(rows, None)
                return ModelCall(signature, {spec.name: _tensor(rows, most, spec, context.check)})

        return Parsed(decode)

    @override
    def encode(self, prediction: Prediction) -> Response:
        ((name, array),) = prediction.outputs.items()
        (content_type,) = self.media_types  # without a charset: SDKs compare it with their Accept header
        if not array.size:
            return Response(b"", content_type)
        table = array.reshape(len(array) if array.ndim else 1, -1)
        text = _text_of_strings(table) if array.dtype.hasobject else _text_of_numbers(name, table)
        return Response(text, content_type)


def _rows(text: bytes) -> Iterator[list[str]]:
    """Yield the rows that are not blank; raise MalformedBody for invalid CSV."""
    # A StringIO takes four bytes for each character; this decodes a few lines at a time.
    lines = io.TextIOWrapper(io.BytesIO(text), "utf-8", newline="")
    try:
        yield from filter(None, csv.reader(lines, strict=True))
    except csv.Error as error:
        raise MalformedBody(f"the CSV cannot be read: {error}") from None
    except UnicodeDecodeError:
        raise MalformedBody("the CSV is not valid UTF-8") from None


def _check_kind(spec: TensorSpec) -> None:
    """Raise InputMismatch for a tensor that rows of text cannot fill."""
    if spec.shape is not None and len(spec.shape) not in (1, 2):
        raise InputMismatch(
            f"input {spec.name}: text/csv carries rows for a tensor of rank 1 or 2, the model takes "
            f"{describe_shape(spec.shape)}; send application/json or application/x-npy"
        )
    if not spec.is_string and numpy_dtype(spec).kind == "c":
        raise InputMismatch(f"input {spec.name}: text/csv cannot carry {spec.dtype}")


def _tensor(rows: Iterator[list[str]], most: int, spec: TensorSpec, step: Callable[[], None]) -> Array:
    """Return all fields, at most ``most``. A few thousand at a time are objects; ``step`` is called in between."""
    first = next(rows, None)
    if first is None:
        raise MalformedBody("the CSV has no row")
    columns, rows = len(first), chain([first], rows)
    rank = (1 if columns == 1 else 2) if spec.shape is None else len(spec.shape)
    if rank == 1 and columns != 1:
        raise InputMismatch(f"input {spec.name}: expected one field per row for {spec}, got {columns}")
    flat: Array = np.empty(most, object if spec.is_string else numpy_dtype(spec))
    filled = 0
    while some := list(islice(rows, max(1, _FIELDS_AT_ONCE // columns))):
        wrong = next((index for index, row in enumerate(some) if len(row) != columns), None)
        if wrong is not None:
            before = filled // columns
            raise MalformedBody(f"row {before + wrong + 1} has {len(some[wrong])} fields, row 1 has {columns}")
        fields = chain.from_iterable(some)
        while piece := list(islice(fields, _FIELDS_AT_ONCE)):  # a row may have as many fields as the body allows
            step()
            flat[filled : filled + len(piece)] = _elements(piece, filled, columns, spec)
            filled += len(piece)
    return flat[:filled] if rank == 1 else flat[:filled].reshape(-1, columns)


def _elements(fields: list[str], before: int, columns: int, spec: TensorSpec) -> Array:
    """Return fields as elements of a tensor; raise MalformedBody for the first invalid one, ``before`` fields in."""
    if spec.is_string:
        return string_tensor(field.encode() for field in fields)
    try:
        return _numbers(fields, spec)
    except ValueError:
        index = next(index for index, field in enumerate(fields) if not _is_number(field, spec))
        row, column = divmod(before + index, columns)
        raise MalformedBody(
            f"row {row + 1}, field {column + 1}: expected {spec.dtype} for the input {spec.name}, "
            f"got {fields[index][:40]!r}"
        ) from None


def _is_number(field: str, spec: TensorSpec) -> bool:
    with suppress(InputMismatch):
        try:
            _numbers([field], spec)
        except ValueError:
            return False
    return True


def _numbers(fields: list[str], spec: TensorSpec) -> Array:
    """Return the numbers of fields, whole numbers exactly; raise ValueError for an invalid one."""
    kind = numpy_dtype(spec).kind
    if kind == "b":
        found = [_BOOLS.get(field.strip().lower()) for field in fields]
        if None in found:
            raise ValueError("neither true nor false")
        return np.array(found, bool)
    text = "".join(fields)
    if "_" in text or not text.isascii() or (not text.isprintable() and _CONTROLS.search(text)):
        raise ValueError("only ASCII digits without underscores are accepted")
    if kind in "iu":
        with suppress(ValueError):  # a point or an exponent
            return numbers(list(map(int, fields)), spec)
    floats = np.array(list(map(float, fields)), np.float64)
    if not all("n" in fields[index].lower() for index in np.flatnonzero(np.isinf(floats)).tolist()):
        raise ValueError("a number is too large for a double")
    return cast(floats, spec)


def _text_of_numbers(name: str, table: Array) -> bytes:
    """Return a table of two dimensions as text: its JSON, cut at the rows."""
    return whole_text(name, table)[2:-2].replace(b"],[", b"\n") + b"\n"


def _text_of_strings(table: Array) -> bytes:
    """Return text, quoted where necessary; bytes that are not UTF-8 as base64."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows([[_field(element) for element in row] for row in table.tolist()])
    return stream.getvalue().encode()


def _field(element: bytes) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return base64.b64encode(element).decode()
