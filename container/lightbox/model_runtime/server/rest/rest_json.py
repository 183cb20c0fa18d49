"""REST responses as JSON: TensorFlow Serving's keys, values and errors, without white space.

orjson writes arrays with the fewest digits that restore each number.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.messages import classification_pb2, regression_pb2
from lightbox.model_runtime.wire.rest.number_lists import FLOATS, NUMERIC
from lightbox.model_runtime.wire.status import invalid

Array = np.ndarray[Any, np.dtype[Any]]

BYTES_SUFFIX = "_bytes"
"""Suffix of string outputs that are written as ``{"b64": ...}``."""

_WRITTEN = NUMERIC | {dtypes.DT_BOOL}


def write_predict(outputs: Mapping[str, Array], by_row: bool) -> bytes:
    """Return ``{"predictions": [...]}`` (``by_row``) or ``{"outputs": ...}`` as in TensorFlow Serving.

    Rows need the same first dimension, at least 1, in every output. Raises INVALID_ARGUMENT for other outputs, and for
    dtypes that JSON responses do not carry (half, complex64, ...).
    """
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    if by_row:
        _check_batch_sizes(outputs)
    columns = {name: _values(outputs[name], name.endswith(BYTES_SUFFIX)) for name in sorted(outputs)}
    content: Any = columns
    if len(columns) == 1:
        (content,) = columns.values()
    elif by_row:
        content = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return _dumped({"predictions" if by_row else "outputs": content})


def write_classifications(result: classification_pb2.ClassificationResult) -> bytes:
    """Return ``{"results": [[["label", score], ...], ...]}``."""
    if not result.classifications:
        raise invalid("Cannot convert empty ClassificationResults to JSON")
    rows = [
        list(zip([item.label for item in row.classes], _float32([item.score for item in row.classes]), strict=True))
        for row in result.classifications
    ]
    return _dumped({"results": rows})


def write_regressions(result: regression_pb2.RegressionResult) -> bytes:
    """Return ``{"results": [value, ...]}``."""
    if not result.regressions:
        raise invalid("Cannot convert empty RegressionResults to JSON")
    return _dumped({"results": _float32([item.value for item in result.regressions])})


def error_body(message: str) -> bytes:
    """Return the body of an error response."""
    return _dumped({"error": written(message)})


def written(text: str) -> str:
    """Return a text with question marks in place of bytes that are not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _dumped(content: Any) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def _check_batch_sizes(outputs: Mapping[str, Array]) -> None:
    batch = 0
    for name, array in sorted(outputs.items()):
        if array.ndim == 0:
            raise invalid(f"Tensor name: {name} has no shape information ")
        size = array.shape[0]
        if size < 1:
            raise invalid(f"Tensor name: {name} has invalid batch size: {size}")
        if batch not in (0, size):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {size} expecting: {batch}")
        batch = size


def _float32(values: Sequence[float]) -> Any:
    return _values(np.array(values, np.float32), False)


def _values(array: Array, as_base64: bool) -> Any:
    """Return orjson's input for an array: itself, lists if orjson cannot write its elements, or a scalar."""
    number = dtypes.number_of(array.dtype)
    if not array.size:
        return array.tolist()
    if number == dtypes.DT_STRING:
        return _nested([_text(value, as_base64) for value in array.reshape(-1).tolist()], array.shape)
    if number not in _WRITTEN:
        raise invalid(f"Failed to write JSON value for tensor type: {dtypes.name_of(number)}")
    whole = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    if number in FLOATS:
        whole = _without_denormals(whole)
        if not np.isfinite(whole).all():
            return _nested([_named(value) for value in whole.reshape(-1)], array.shape)
    return whole if whole.ndim else whole[()]


def _nested(values: list[Any], shape: tuple[int, ...]) -> Any:
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects.reshape(shape).tolist()


def _without_denormals(values: Array) -> Array:
    """Return denormal numbers as zeros, as in TensorFlow Serving."""
    small = np.abs(values) < np.finfo(values.dtype).tiny
    return np.where(small, np.copysign(values.dtype.type(0), values), values) if small.any() else values


def _named(value: Any) -> Any:
    """Return names for NaN and infinities, which orjson does not write."""
    return value if np.isfinite(value) else orjson.Fragment(json.dumps(float(value)))


def _text(value: bytes, as_base64: bool) -> Any:
    if as_base64:
        return {"b64": base64.b64encode(value).decode()}
    try:
        return value.decode()
    except UnicodeDecodeError:  # its bytes are sent unchanged
        text = json.dumps(value.decode("utf-8", "surrogateescape"), ensure_ascii=False)
        return orjson.Fragment(text.encode("utf-8", "surrogateescape"))
