"""Arrays as JSON text, whole or row by row, without a Python loop over the numbers."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from lightbox.errors import NotAcceptable
from lightbox.model_spec import Array
from tfs_wire import json_arrays


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
