"""text/csv both ways: a row an instance, no header.

A row holds the elements of one instance: N of them for a model of [batch, N], one for a model of [batch].
Fields of numbers may be quoted or not; a field for a string model is text.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar

import numpy as np
from typing_extensions import override

from lightbox.codecs.base import Images, Parsed, Reader, Response, Writer
from lightbox.codecs.json_text import whole_text
from lightbox.codecs.media_type import ContentType, checked_utf8
from lightbox.codecs.options import CodecOptions
from lightbox.core.errors import InputMismatch, MalformedBody
from lightbox.core.request_context import RequestContext
from lightbox.model.casting import cast, numbers, numpy_dtype, only_input, string_tensor
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, Method, ModelCall, Prediction, SignatureSpec, TensorSpec, describe_shape
from lightbox.openapi.schemas import TEXT, Schema

_NUMBER = re.compile(r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)\s*", re.ASCII | re.IGNORECASE)
_INFINITY = re.compile(r"\s*[+-]?inf(?:inity)?\s*", re.IGNORECASE)
_FIELDS_AT_ONCE = 1 << 14
_STRING_BYTES = 64
"""Memory of a short text as an element of a tensor."""
_BOOLS = {"true": True, "false": False, "1": True, "0": False}


class CsvCodec(Reader, Writer):
    """Rows of numbers or text: in, for a model with one input; out, all elements of one output, a line for each row.

    A field may be as long as a body. Numbers are written as in JSON, and there is no header.
    """

    media_types: ClassVar[tuple[str, ...]] = ("text/csv",)
    schema: ClassVar[Schema] = TEXT
    single: ClassVar[bool] = True

    @override
    def __init__(self, images: Images, options: CodecOptions) -> None:
        super().__init__(images, options)
        csv.field_size_limit(options.max_body_mb << 20)  # for the whole process; 131072 without it

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:

        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            spec = only_input(signature, "text/csv")
            _check_kind(spec)
            with context.stage("decode"):
                context.memory.hold(_reading_bytes(body, spec), "the CSV")
                text = checked_utf8(body, content_type)
                header = content_type.parameters.get("header", "").lower() == "present"
                return ModelCall(signature, {spec.name: _tensor(_Rows(text, header, context.check), spec)})

        return Parsed(decode)

    @override
    def encode(self, prediction: Prediction) -> Response:
        ((name, array),) = prediction.outputs.items()
        content_type = f"{self.media_types[0]}; charset=utf-8"
        if not array.size:
            return Response(b"", content_type)
        table = array.reshape(len(array) if array.ndim else 1, -1)
        text = _text_of_strings(table) if array.dtype.hasobject else _text_of_numbers(name, table)
        return Response(text, content_type)


def _reading_bytes(body: bytes, spec: TensorSpec) -> int:
    """Return how much memory it may take at most to read the rows, by their structure."""
    fields = body.count(b",") + body.count(b"\n") + body.count(b"\r") + 1
    return 3 * len(body) + fields * (_STRING_BYTES if spec.is_string else numpy_dtype(spec).itemsize)


@dataclass(frozen=True)
class _Fields:
    """The fields of some rows, ``before`` of which come earlier."""

    flat: list[str]
    before: int
    columns: int

    def bad(self, index: int, spec: TensorSpec) -> MalformedBody:
        """Return the error that names a field."""
        row, column = divmod(index, self.columns)
        return MalformedBody(
            f"row {self.before + row + 1}, field {column + 1}: expected {spec.dtype} for the input {spec.name}, "
            f"got {self.flat[index][:40]!r}"
        )


class _Rows:
    """The rows of a text, some thousands at a time, from its beginning each time that they are iterated over.

    ``step`` is called in between. Raises MalformedBody for what is no CSV, and for rows of different lengths.
    """

    def __init__(self, text: bytes, header: bool, step: Callable[[], None]) -> None:
        self._text = text
        self._header = header
        self._step = step
        self.columns = len(next(self._rows(), ()))

    @property
    def most(self) -> int:
        """No fewer fields than there are."""
        return self._text.count(b",") + self._text.count(b"\n") + self._text.count(b"\r") + 1

    def __iter__(self) -> Iterator[_Fields]:
        rows, before = self._rows(), 0
        while some := self._some(rows, before):
            yield _Fields(list(chain.from_iterable(some)), before, self.columns)
            before += len(some)

    def _some(self, rows: Iterator[list[str]], before: int) -> list[list[str]]:
        self._step()
        some = list(islice(rows, max(1, _FIELDS_AT_ONCE // max(1, self.columns))))
        if set(map(len, some)) - {self.columns}:
            wrong = next(index for index, row in enumerate(some) if len(row) != self.columns)
            raise MalformedBody(f"row {before + wrong + 1} has {len(some[wrong])} fields, row 1 has {self.columns}")
        return some

    def _rows(self) -> Iterator[list[str]]:
        # A stream of characters would be four bytes for each; this one decodes some lines at a time.
        lines = io.TextIOWrapper(io.BytesIO(self._text), "utf-8", newline="")
        try:
            yield from islice(filter(None, csv.reader(lines, strict=True)), int(self._header), None)
        except csv.Error as error:
            raise MalformedBody(f"the CSV cannot be read: {error}") from None


def _check_kind(spec: TensorSpec) -> None:
    """Raise InputMismatch for a tensor that no rows of text can fill."""
    if spec.shape is not None and len(spec.shape) not in (1, 2):
        raise InputMismatch(
            f"input {spec.name}: text/csv carries rows for a tensor of rank 1 or 2, the model takes "
            f"{describe_shape(spec.shape)}; send application/json or application/x-npy"
        )
    if not spec.is_string and numpy_dtype(spec).kind == "c":
        raise InputMismatch(f"input {spec.name}: text/csv cannot carry {spec.dtype}")


def _tensor(rows: _Rows, spec: TensorSpec) -> Array:
    columns = rows.columns
    if not columns:
        raise MalformedBody("the CSV has no row")
    rank = (1 if columns == 1 else 2) if spec.shape is None else len(spec.shape)
    if rank == 1 and columns != 1:
        raise InputMismatch(f"input {spec.name}: expected one field per row for {spec}, got {columns}")
    flat = _gathered(rows, _integers, spec) if not spec.is_string and numpy_dtype(spec).kind in "iu" else None
    if flat is None:
        flat = _gathered(rows, _strings if spec.is_string else _numbers, spec)
    assert flat is not None, "only whole numbers are given up"
    return flat if rank == 1 else flat.reshape(-1, columns)


def _gathered(rows: _Rows, convert: Callable[[_Fields, TensorSpec], Array | None], spec: TensorSpec) -> Array | None:
    """Return all fields, in one array from the beginning; None where ``convert`` gives up."""
    flat: Array = np.empty(rows.most, object if spec.is_string else numpy_dtype(spec))
    filled = 0
    for fields in rows:
        piece = convert(fields, spec)
        if piece is None:
            return None
        flat[filled : filled + len(piece)] = piece
        filled += len(piece)
    return flat[:filled]


def _strings(fields: _Fields, spec: TensorSpec) -> Array:
    return string_tensor(field.encode() for field in fields.flat)


def _numbers(fields: _Fields, spec: TensorSpec) -> Array:
    if numpy_dtype(spec).kind == "b":
        return np.array(_converted(lambda field: _BOOLS[field.strip().lower()], fields, spec), bool)
    _check_plain(fields, spec)
    floats = np.array(_converted(float, fields, spec), np.float64)
    for index in np.flatnonzero(np.isinf(floats)).tolist():
        if not _INFINITY.fullmatch(fields.flat[index]):
            raise fields.bad(index, spec)
    return cast(floats, spec)


def _check_plain(fields: _Fields, spec: TensorSpec) -> None:
    """Python's numbers may also hold underscores and the digits of any script."""
    text = "".join(fields.flat)
    if "_" in text or not text.isascii():
        for index, field in enumerate(fields.flat):
            if not _NUMBER.fullmatch(field):
                raise fields.bad(index, spec)


def _integers(fields: _Fields, spec: TensorSpec) -> Array | None:
    """Return whole numbers exactly, None where a field has a point or an exponent."""
    _check_plain(fields, spec)
    try:
        values = list(map(int, fields.flat))
    except ValueError:
        return None
    return numbers(values, spec)


def _converted(convert: Callable[[str], bool | float], fields: _Fields, spec: TensorSpec) -> list[bool | float]:
    try:
        return list(map(convert, fields.flat))
    except (ValueError, KeyError):
        for index, field in enumerate(fields.flat):
            try:
                convert(field)
            except (ValueError, KeyError):
                raise fields.bad(index, spec) from None
        raise


def _text_of_numbers(name: str, table: Array) -> bytes:
    """Return a table of two dimensions: its JSON, cut where a row ends."""
    return whole_text(name, table)[2:-2].replace(b"],[", b"\n") + b"\n"


def _text_of_strings(table: Array) -> bytes:
    """Return text quoted where it must be; bytes that are no UTF-8 as base64."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows([[_field(element) for element in row] for row in table.tolist()])
    return stream.getvalue().encode()


def _field(element: bytes) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return base64.b64encode(element).decode()
