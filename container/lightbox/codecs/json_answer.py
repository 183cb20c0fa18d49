"""Outputs as TensorFlow Serving's JSON answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from lightbox.model_spec import Array
from tfs_wire import json_arrays


def write_predictions(outputs: Mapping[str, Array], batch_size: int | None) -> bytes:
    """Return ``{"predictions": [...]}``, one row for each instance.

    A row is a bare value for one output, an object by name for several. ``batch_size`` is the first
    dimension of the inputs, None where they have none; when an output does not start with it, the answer
    is ``{"outputs": {...}}`` by name. NaN and infinities are written as TensorFlow Serving does.
    """
    ready = {name: json_ready(name, array) for name, array in outputs.items()}
    if not all(array.ndim and array.shape[0] == batch_size for array in outputs.values()):
        return json_arrays.dumps({"outputs": ready})
    if len(ready) == 1:
        return json_arrays.dumps({"predictions": next(iter(ready.values()))})
    rows = [{name: values[row] for name, values in ready.items()} for row in range(batch_size or 0)]
    return json_arrays.dumps({"predictions": rows})


def json_ready(name: str, array: Array) -> Any:
    """Return an array of numbers as it is; strings as nested lists of text.

    As TensorFlow Serving has it, an output whose name ends in ``_bytes`` is written as ``{"b64": ...}``; so
    are bytes that are no UTF-8, which it writes as broken text.
    """
    if not array.dtype.hasobject:
        return array
    as_bytes = name.endswith("_bytes")
    texts = np.empty(array.size, object)
    texts[:] = [_text(element, as_bytes) for element in array.ravel().tolist()]
    return texts.reshape(array.shape).tolist()


def _text(element: bytes, as_bytes: bool) -> Any:
    if not as_bytes:
        try:
            return element.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(element).decode()}
