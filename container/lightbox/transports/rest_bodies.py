"""Arrays to the JSON of TensorFlow Serving's predict, and back.

Two forms: rows (``instances``/``predictions``) and columns (``inputs``/``outputs``). The server puts each number of a
column on a line of its own, indented, and writes the arrays of rows on one line: half the bytes or less, and less
time to write and to read. But rows ask that all outputs have the same first dimension, and only a run of the model
tells that for sure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lightbox.model_spec import Array, TensorSpec
from lightbox.transports.base import PredictCall
from tfs_wire import json_arrays
from tfs_wire.json_table import padded_text

_NO_ROWS = ("has inconsistent batch size", "has invalid batch size", "has no shape information")


def may_go_by_rows(call: PredictCall) -> bool:
    """Tell whether a call has rows: one input that has some, and outputs that may all have as many."""
    arrays = list(call.inputs.values())
    if len(arrays) != 1 or not arrays[0].ndim or not len(arrays[0]):
        return False
    shapes = [spec.shape for spec in call.signature.outputs.values()]
    return all(shapes) and len({shape[0] for shape in shapes if shape}) == 1


def has_no_rows(message: str) -> bool:
    """Tell whether the server's error says that the outputs of a call have no rows in common."""
    return any(words in message for words in _NO_ROWS)


def write_request(call: PredictCall, by_row: bool) -> bytes:
    """Return the body of a call; ``by_row`` where it may go by rows."""
    pieces: list[bytes | memoryview] = [b'{"signature_name":', json_arrays.dumps(call.signature.name)]
    pieces.append(b',"instances":' if by_row else b',"inputs":{')
    for number, (name, array) in enumerate(call.inputs.items()):
        if not by_row:
            pieces.append((b"," if number else b"") + json_arrays.dumps(name) + b":")
        pieces += padded_text(array) if not array.dtype.hasobject else [json_arrays.dumps(_in_base64(array))]
    pieces.append(b"}" if by_row else b"}}")
    return b"".join(pieces)  # once: images are megabytes of text


def read_answer(body: bytes, call: PredictCall, by_row: bool) -> dict[str, Array]:
    """Return the wanted outputs of an answer. Raises ValueError, KeyError or TypeError for what is none."""
    spec, answer = call.signature, json_arrays.loads(body)
    wanted = call.outputs or tuple(spec.outputs)
    if len(spec.outputs) == 1:
        named = {next(iter(spec.outputs)): answer["predictions" if by_row else "outputs"]}
    elif by_row:
        named = {name: [row[name] for row in answer["predictions"]] for name in wanted}
    else:
        named = answer["outputs"]
    return {name: _read_tensor(named[name], spec.outputs[name]) for name in wanted}


def _in_base64(array: Array) -> Any:
    return _map(array, lambda element: {"b64": base64.b64encode(element).decode()}).tolist()


def _read_tensor(value: Any, spec: TensorSpec) -> Array:
    if not spec.is_string:
        return np.asarray(value, spec.dtype)
    return _map(np.asarray(value, object), _read_string)


def _read_string(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else str(value).encode("utf-8", "surrogateescape")


def _map(array: Array, convert: Callable[[Any], Any]) -> npt.NDArray[np.object_]:
    """Convert each element of an object array; the shape stays, that of an array without elements too."""
    out = np.empty(array.size, object)
    out[:] = [convert(element) for element in array.ravel().tolist()]
    return out.reshape(array.shape)
