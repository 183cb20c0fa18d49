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
    if value.dtype.hasobject:
        return value.tolist()
    plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
    text = orjson.dumps(plain, option=orjson.OPT_SERIALIZE_NUMPY)
    if value.dtype.kind == "f":
        text = _name_nonfinite(text, plain)
    return orjson.Fragment(text if value.ndim else text[1:-1])


def _name_nonfinite(text: bytes, array: np.ndarray[Any, Any]) -> bytes:
    """Put the names of NaN and infinities where orjson has written null, in the order of the array."""
    finite = np.isfinite(array)
    if finite.all():
        return text
    names = [_NAMES[repr(number)] for number in array[~finite].tolist()]
    pieces = text.split(b"null")
    return b"".join(chain.from_iterable(zip(pieces, names, strict=False))) + pieces[-1]


def loads(data: bytes | memoryview) -> Any:
    """Parse JSON text, ``NaN``, ``Infinity`` and ``-Infinity`` included; raise ValueError when it is malformed."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(bytes(data))
