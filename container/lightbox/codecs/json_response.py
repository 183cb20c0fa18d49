"""Arrays as JSON text, whole or row by row, without a Python loop over the numbers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from lightbox.core.errors import NotAcceptable
from lightbox.model import json_arrays
from lightbox.model.call import Layout, Prediction
from lightbox.model.spec import Array


def json_ready(name: str, array: Array) -> Any:
    """Return an array of numbers as it is; strings as nested lists of text.

    As TensorFlow Serving has it, an output whose name ends in ``_bytes`` is written as ``{"b64": ...}``; so
    are bytes that are no UTF-8, which it writes as broken text.
    """
    if not array.dtype.hasobject:
        return checked(name, array)
    as_bytes = name.endswith("_bytes")
    texts = np.empty(array.size, object)
    texts[:] = [_text(element, as_bytes) for element in array.ravel().tolist()]
    return texts.reshape(array.shape).tolist()


def checked(name: str, array: Array) -> Array:
    """Return an array of real numbers or bools; raise NotAcceptable for others."""
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
        return json_arrays.dumps(json_ready(name, array))
    return json_arrays.array_text(checked(name, array))


def row_texts(name: str, array: Array) -> list[bytes]:
    """Return the JSON of each row of an array of at least one dimension.

    Numbers are written at once and the text is cut where one row ends and the next begins: the only places
    with as many brackets as a row has dimensions.
    """
    if array.dtype.hasobject:
        return [json_arrays.dumps(row) for row in json_ready(name, array)]
    if not checked(name, array).size:
        return [json_arrays.array_text(row) for row in array]
    if len(array) == 1:
        return [json_arrays.array_text(array[0])]
    closing, opening = b"]" * (array.ndim - 1), b"[" * (array.ndim - 1)
    inside = json_arrays.array_text(array)[array.ndim : -array.ndim]
    return [opening + row + closing for row in inside.split(closing + b"," + opening)]


def encode_document(prediction: Prediction) -> bytes:
    """Return ``{"predictions": [...]}`` row by row, ``{"outputs": ...}`` by column, ``{"results": [...]}``.

    A row is a bare value for one output, an object by name for several. Outputs that have no rows come by
    name. NaN and infinities are written as TensorFlow Serving does. Classes by name, where the model's options ask for
    them, are ``{"predictions": [...]}`` whatever the layout.
    """
    if (ranked := prediction.ranked() if prediction.ranked else None) is not None:
        return b'{"predictions":[' + b",".join(ranked) + b"]}"
    if not prediction.by_row:
        return json_arrays.dumps({"outputs": _by_column(prediction)})
    key = b"results" if prediction.layout is Layout.RESULTS else b"predictions"
    if len(prediction.outputs) == 1 and prediction.layout is not Layout.RESULTS:
        ((name, array),) = prediction.outputs.items()
        return b"".join((b'{"predictions":', whole_text(name, array), b"}"))
    return b'{"' + key + b'":[' + b",".join(_rows(prediction)) + b"]}"


def encode_lines(prediction: Prediction) -> bytes:
    """Return one prediction a line; a single line for outputs that have no rows."""
    ranked = prediction.ranked() if prediction.ranked else None
    if ranked is not None:
        return b"\n".join((*ranked, b""))
    lines = _rows(prediction) if prediction.by_row else [json_arrays.dumps(_by_column(prediction))]
    return b"\n".join((*lines, b""))


def _by_column(prediction: Prediction) -> Any:
    """Return whole outputs by name; the bare one where TensorFlow Serving's columnar form has just one."""
    ready = {name: json_ready(name, array) for name, array in prediction.outputs.items()}
    return next(iter(ready.values())) if prediction.layout is Layout.COLUMNS and len(ready) == 1 else ready


def _rows(prediction: Prediction) -> list[bytes]:
    if prediction.layout is Layout.RESULTS and "outputs" not in prediction.outputs:
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
