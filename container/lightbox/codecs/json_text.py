"""JSON text of arrays, with NaN and infinities as in TensorFlow Serving, and responses made of it.

orjson does the work; it would silently turn NaN into null, and refuses NaN when it parses.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import orjson
from typing_extensions import override

from lightbox.base.errors import NotAcceptable
from lightbox.codecs.base import NEEDS_NAMES, Response, Writer
from lightbox.model.spec import Array, Layout, Mark, Prediction
from lightbox.openapi.schemas import TEXT, Schema, ref

if TYPE_CHECKING:
    from lightbox.openapi.models import DescribedModel

_ROWS_AT_ONCE = 1 << 14
_NAMES = {"nan": b"NaN", "inf": b"Infinity", "-inf": b"-Infinity"}


def to_json(value: Any) -> bytes:
    """Return JSON for nested dicts, lists, scalars and ndarrays of numbers or bools.

    NaN and infinities inside arrays become ``NaN``, ``Infinity`` and ``-Infinity``. Raises TypeError for other values.
    """
    try:
        return orjson.dumps(value, default=_array)
    except orjson.JSONEncodeError as error:
        raise TypeError(str(error)) from error


def _array(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return value.tolist() if value.dtype.hasobject else orjson.Fragment(array_text(value))


def array_text(array: np.ndarray[Any, Any]) -> bytes:
    """Return the JSON of an array of numbers or bools, as ``to_json`` but with one copy less."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    try:
        text = _dumped(plain)
    except orjson.JSONEncodeError as error:
        raise TypeError(str(error)) from error
    if array.dtype.kind == "f":
        text = _name_nonfinite(text, plain)
    return text if array.ndim else text[1:-1]


def _dumped(array: np.ndarray[Any, Any]) -> bytes:
    """Write some rows at a time: orjson takes 100 bytes for each row of the last dimension until it has ended."""
    rows = math.prod(array.shape[:-1])
    if rows <= _ROWS_AT_ONCE:
        return orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
    if len(array) == 1:
        return b"[" + _dumped(array[0]) + b"]"
    step = max(1, _ROWS_AT_ONCE * len(array) // rows)
    return b"[" + b",".join(_dumped(array[at : at + step])[1:-1] for at in range(0, len(array), step)) + b"]"


def _name_nonfinite(text: bytes, array: np.ndarray[Any, Any]) -> bytes:
    """Replace orjson's nulls by the names of NaN and infinities, in the order of the array."""
    if b"null" not in text:
        return text
    finite = np.isfinite(array)
    names = [_NAMES[repr(number)] for number in array[~finite].tolist()]
    pieces = text.split(b"null")
    return b"".join(chain.from_iterable(zip(pieces, names, strict=False))) + pieces[-1]


def from_json(data: bytes | memoryview) -> Any:
    """Parse JSON text with ``NaN``, ``Infinity`` and ``-Infinity``; raise ValueError for malformed text.

    Bytes that are not UTF-8, which TensorFlow Serving writes unchanged, become lone surrogates ("surrogateescape").
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(bytes(data).decode("utf-8", "surrogateescape"))


def json_ready(name: str, array: Array) -> Any:
    """Return an array of numbers unchanged; strings as nested lists of text.

    As in TensorFlow Serving, an output whose name ends in ``_bytes`` is written as ``{"b64": ...}``. So are bytes that
    are not UTF-8, which TensorFlow Serving writes as broken text.
    """
    if not array.dtype.hasobject:
        return checked(name, array)
    as_bytes = name.endswith("_bytes")
    texts = np.empty(array.size, object)
    texts[:] = [_text(element, as_bytes) for element in array.ravel().tolist()]
    return texts.reshape(array.shape).tolist()


def checked(name: str, array: Array) -> Array:
    """Return an array of real numbers or bools unchanged; raise NotAcceptable for others."""
    if array.dtype.kind not in "biuf":
        raise NotAcceptable(
            f"Accept: the output {name} holds {array.dtype}, which text cannot carry; accept application/x-npy"
        )
    return array


def _text(element: bytes, as_bytes: bool) -> Any:
    if not as_bytes:
        try:
            return element.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(element).decode()}


def whole_text(name: str, array: Array) -> bytes:
    """Return the JSON of a whole array."""
    if array.dtype.hasobject:
        return to_json(json_ready(name, array))
    return array_text(checked(name, array))


def row_texts(name: str, array: Array) -> list[bytes]:
    """Return the JSON of each row of an array of at least one dimension.

    The whole array is written at once. The text is cut between two rows: the only places with as many brackets as a row
    has dimensions.
    """
    if array.dtype.hasobject:
        return [to_json(row) for row in json_ready(name, array)]
    if not checked(name, array).size:
        return [array_text(row) for row in array]
    if len(array) == 1:
        return [array_text(array[0])]
    closing, opening = b"]" * (array.ndim - 1), b"[" * (array.ndim - 1)
    inside = array_text(array)[array.ndim : -array.ndim]
    return [opening + row + closing for row in inside.split(closing + b"," + opening)]


def named_rows(prediction: Prediction, writer: Writer, mark: Mark | None = None) -> Sequence[bytes]:
    """Return the JSON of each image's classes or objects, for a media type that needs them, masks as in ``Ranked``.

    Raises NotAcceptable.
    """
    rows = prediction.ranked(mark) if prediction.ranked else None
    if rows is None:
        raise NotAcceptable(f"Accept: {writer.media_types[0]} {NEEDS_NAMES}")
    return rows


def encode_document(prediction: Prediction) -> bytes:
    """Return ``{"predictions": [...]}`` by row, ``{"outputs": ...}`` by column, or ``{"results": [...]}``.

    A row is a bare value for one output, an object by name for several. Outputs without rows are written by name. NaN
    and infinities are written as in TensorFlow Serving. Classes by name, if the model's options ask for them, are
    ``{"predictions": [...]}`` in every layout.
    """
    if (ranked := prediction.ranked() if prediction.ranked else None) is not None:
        return b'{"predictions":[' + b",".join(ranked) + b"]}"
    if not prediction.by_row:
        return to_json({"outputs": _by_column(prediction)})
    key = b"results" if prediction.layout is Layout.RESULTS else b"predictions"
    if len(prediction.outputs) == 1 and prediction.layout is not Layout.RESULTS:
        ((name, array),) = prediction.outputs.items()
        return b"".join((b'{"predictions":', whole_text(name, array), b"}"))
    return b'{"' + key + b'":[' + b",".join(_rows(prediction)) + b"]}"


def encode_row(prediction: Prediction) -> bytes:
    """Return the row of a prediction with exactly one, as in ``encode_document``; else the document."""
    rows = prediction.ranked() if prediction.ranked else None
    if rows is None and prediction.by_row:
        rows = _rows(prediction)
    return rows[0] if rows is not None and len(rows) == 1 else encode_document(prediction)


def encode_lines(prediction: Prediction) -> bytes:
    """Return one prediction on each line; a single line for outputs without rows."""
    ranked = prediction.ranked() if prediction.ranked else None
    if ranked is not None:
        return b"\n".join((*ranked, b""))
    lines = _rows(prediction) if prediction.by_row else [to_json(_by_column(prediction))]
    return b"\n".join((*lines, b""))


def _by_column(prediction: Prediction) -> Any:
    """Return whole outputs by name; a single one without a name, as in TensorFlow Serving's columnar form."""
    ready = {name: json_ready(name, array) for name, array in prediction.outputs.items()}
    return next(iter(ready.values())) if prediction.layout is Layout.COLUMNS and len(ready) == 1 else ready


def _rows(prediction: Prediction) -> list[bytes]:
    if prediction.layout is Layout.RESULTS and "outputs" not in prediction.outputs:
        return _classes(prediction.outputs)
    if len(prediction.outputs) == 1:
        ((name, array),) = prediction.outputs.items()
        return row_texts(name, array)
    columns = [row_texts(name, array) for name, array in prediction.outputs.items()]
    names = [to_json(name) + b":" for name in prediction.outputs]
    return [b"{" + b",".join(map(bytes.__add__, names, row)) + b"}" for row in zip(*columns, strict=True)]


def _classes(outputs: Mapping[str, Array]) -> list[bytes]:
    """Return ``[["label", score], ...]`` for each example; a missing label is "", a missing score 0."""
    shape = next(iter(outputs.values())).shape
    labels = json_ready("classes", outputs["classes"]) if "classes" in outputs else [[""] * shape[1]] * shape[0]
    # By way of JSON: a float32 then has only the digits that identify it.
    scores = from_json(to_json(outputs["scores"])) if "scores" in outputs else [[0.0] * shape[1]] * shape[0]
    return [to_json(list(zip(*row, strict=True))) for row in zip(labels, scores, strict=True)]


class JsonWriter(Writer):
    """JSON documents as in TensorFlow Serving's REST API."""

    media_types: ClassVar[tuple[str, ...]] = ("application/json",)

    @override
    def encode(self, prediction: Prediction) -> Response:
        return Response(encode_document(prediction), self.media_types[0])

    @override
    def components(self, models: Sequence[DescribedModel]) -> dict[str, Schema]:
        from lightbox.codecs.json_schemas import SHARED, response_body

        return SHARED | {f"{model.name}.response": response_body(model) for model in models}

    @override
    def response_schemas(self, models: Sequence[DescribedModel]) -> list[Schema]:
        return [ref(f"{model.name}.response") for model in models]


class JsonLinesWriter(Writer):
    """One prediction on each line. A model's options may choose AWS's form: one line without its end."""

    media_types: ClassVar[tuple[str, ...]] = ("application/jsonlines",)
    schema: ClassVar[Schema] = TEXT

    @override
    def encode(self, prediction: Prediction) -> Response:
        write = encode_document if prediction.lines_as_document else encode_lines
        return Response(write(prediction), self.media_types[0])
