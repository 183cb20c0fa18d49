"""JSON text that holds arrays, with NaN and infinities as TensorFlow Serving writes them.

orjson does the work; it alone would turn NaN into null without a word, and refuse it when reading.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import numpy as np
import orjson

_NAMES = {"nan": b"NaN", "inf": b"Infinity", "-inf": b"-Infinity"}


def dumps(value: Any) -> bytes:
    """Return JSON for dicts, lists, scalars and ndarrays of numbers or bools, nested as they like.

    NaN and infinities inside arrays become ``NaN``, ``Infinity`` and ``-Infinity``. Raises TypeError for
    what JSON cannot hold.
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
    """Return the JSON of an array of numbers or bools, as ``dumps`` does but with one copy of the text less."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    try:
        text = orjson.dumps(plain, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise TypeError(str(error)) from error
    if array.dtype.kind == "f":
        text = _name_nonfinite(text, plain)
    return text if array.ndim else text[1:-1]


def _name_nonfinite(text: bytes, array: np.ndarray[Any, Any]) -> bytes:
    """Put the names of NaN and infinities where orjson has written null, in the order of the array."""
    if b"null" not in text:
        return text
    finite = np.isfinite(array)
    names = [_NAMES[repr(number)] for number in array[~finite].tolist()]
    pieces = text.split(b"null")
    return b"".join(chain.from_iterable(zip(pieces, names, strict=False))) + pieces[-1]


def loads(data: bytes | memoryview) -> Any:
    """Parse JSON text, ``NaN``, ``Infinity`` and ``-Infinity`` included; raise ValueError when it is malformed.

    Bytes that are no UTF-8, which TensorFlow Serving writes as they are, become lone surrogates ("surrogateescape").
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(bytes(data).decode("utf-8", "surrogateescape"))
