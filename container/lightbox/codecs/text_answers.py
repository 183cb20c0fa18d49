"""Answers in text: application/json as TensorFlow Serving writes it, application/jsonlines and text/csv."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping
from typing import Any

from lightbox.codecs.base import Answer, Form, Prediction
from lightbox.codecs.json_rows import json_ready, row_texts, whole_text
from lightbox.model_spec import Array
from tfs_wire import json_arrays


class JsonAnswer:
    """``{"predictions": [...]}`` row by row, ``{"outputs": ...}`` by column, ``{"results": [...]}``.

    A row is a bare value for one output, an object by name for several. Outputs that have no rows come by
    name. NaN and infinities are written as TensorFlow Serving does.
    """

    media_type = "application/json"
    single = False

    def encode(self, prediction: Prediction) -> Answer:
        """See AnswerCodec.encode."""
        return Answer(_json(prediction), self.media_type)


class JsonLinesAnswer:
    """One prediction a line; a single line for outputs that have no rows."""

    media_type = "application/jsonlines"
    single = False

    def encode(self, prediction: Prediction) -> Answer:
        """See AnswerCodec.encode."""
        lines = _rows(prediction) if prediction.by_row else [json_arrays.dumps(_by_column(prediction))]
        return Answer(b"\n".join((*lines, b"")), self.media_type)


class JsonLinesDocument(JsonAnswer):
    """The whole document on one line, without an end, as AWS's container answers application/jsonlines."""

    media_type = JsonLinesAnswer.media_type


class CsvAnswer:
    """One output, a line for each row with all of its elements; numbers as in JSON, no header."""

    media_type = "text/csv"
    single = True

    def encode(self, prediction: Prediction) -> Answer:
        """See AnswerCodec.encode."""
        ((name, array),) = prediction.outputs.items()
        content_type = f"{self.media_type}; charset=utf-8"
        if not array.size:
            return Answer(b"", content_type)
        table = array.reshape(len(array) if array.ndim else 1, -1)
        text = _csv_of_strings(table) if array.dtype.hasobject else _csv_of_numbers(name, table)
        return Answer(text, content_type)


def _json(prediction: Prediction) -> bytes:
    if not prediction.by_row:
        return json_arrays.dumps({"outputs": _by_column(prediction)})
    key = b"results" if prediction.form is Form.RESULTS else b"predictions"
    if len(prediction.outputs) == 1 and prediction.form is not Form.RESULTS:
        ((name, array),) = prediction.outputs.items()
        return b"".join((b'{"predictions":', whole_text(name, array), b"}"))
    return b'{"' + key + b'":[' + b",".join(_rows(prediction)) + b"]}"


def _by_column(prediction: Prediction) -> Any:
    """Return whole outputs by name; the bare one where TensorFlow Serving's columnar form has just one."""
    ready = {name: json_ready(name, array) for name, array in prediction.outputs.items()}
    return next(iter(ready.values())) if prediction.form is Form.COLUMNS and len(ready) == 1 else ready


def _rows(prediction: Prediction) -> list[bytes]:
    if prediction.form is Form.RESULTS and "outputs" not in prediction.outputs:
        return _classes(prediction.outputs)
    if len(prediction.outputs) == 1:
        ((name, array),) = prediction.outputs.items()
        return row_texts(name, array)
    columns = [row_texts(name, array) for name, array in prediction.outputs.items()]
    names = [json_arrays.dumps(name) + b":" for name in prediction.outputs]
    return [b"{" + b",".join(map(bytes.__add__, names, row)) + b"}" for row in zip(*columns, strict=True)]


def _classes(outputs: Mapping[str, Array]) -> list[bytes]:
    """Return ``[["label", score], ...]`` for each example; no label is "", no score is 0."""
    shape = next(iter(outputs.values())).shape
    labels = json_ready("classes", outputs["classes"]) if "classes" in outputs else [[""] * shape[1]] * shape[0]
    # Through JSON: a float32 then has as few digits as tell it from its neighbours.
    scores = (
        json_arrays.loads(json_arrays.dumps(outputs["scores"]))
        if "scores" in outputs
        else [[0.0] * shape[1]] * shape[0]
    )
    return [json_arrays.dumps(list(zip(*row, strict=True))) for row in zip(labels, scores, strict=True)]


def _csv_of_numbers(name: str, table: Array) -> bytes:
    """Return a table of two dimensions: its JSON, cut where a row ends."""
    return whole_text(name, table)[2:-2].replace(b"],[", b"\n") + b"\n"


def _csv_of_strings(table: Array) -> bytes:
    """Return text quoted where it must be; bytes that are no UTF-8 as base64."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows([[_field(element) for element in row] for row in table.tolist()])
    return stream.getvalue().encode()


def _field(element: bytes) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return base64.b64encode(element).decode()
