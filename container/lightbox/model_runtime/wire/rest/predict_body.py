"""The body of a predict call to named ndarrays, with TensorFlow Serving's checks and error texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.dtypes import MAX_DIMENSIONS
from lightbox.model_runtime.wire.rest import flat, quick
from lightbox.model_runtime.wire.rest.base64_value import decode_base64, is_base64
from lightbox.model_runtime.wire.rest.json_document import describe, load, pairs, type_name
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

Array = np.ndarray[Any, np.dtype[Any]]
InputTypes = Mapping[str, int]
"""Input name to dtype number, as in the signature."""
InputTypesOf = Callable[[str], InputTypes]
"""Returns the inputs of a signature by its name, "" for the default one."""
Step = Callable[[], None]
"""Called repeatedly by slow steps."""
_AT_ONCE = 1 << 12


class PredictBody(NamedTuple):
    """The content of a predict call; ``by_row`` means that the response is by row too."""

    signature_name: str
    inputs: dict[str, Array]
    by_row: bool


def read_predict(body: bytes | bytearray, input_types: InputTypesOf) -> PredictBody:
    """Return the inputs in ``body``: ``{"instances": [...]}`` or ``{"inputs": ...}``.

    ``input_types`` is called with the signature's name ("" if none is given) and returns its inputs.
    Integers wrap around as in tensorflow_model_server, strings are bytes, ``{"b64": ...}`` is decoded. Raises
    StatusError (a ValueError) with its code and text.
    """
    long = flat.read(body, input_types)
    if long is not None:
        return PredictBody(*long)
    document = load(body)
    name = signature_name(document)
    form = "instances" if "instances" in document else "inputs"
    if document.keys() - {"signature_name"} == {form} and not has_bools(body):
        found = quick.regular(document[form], form == "instances", _types(name, input_types))
        if found is not None:
            return PredictBody(name, found, form == "instances")
    return read_predict_document(document, input_types)


def has_bools(text: bytes | bytearray) -> bool:
    """Return whether a text may hold true or false, which would pass for numbers."""
    # The rare letter first: searching one byte is far cheaper than searching a word.
    return (b"u" in text and b"true" in text) or (b"l" in text and b"false" in text)


def read_predict_document(document: Any, input_types: InputTypesOf, step: Step = lambda: None) -> PredictBody:
    """Do the same for a parsed body; ``step`` is called in between, and may raise."""
    name = signature_name(document)
    types = _types(name, input_types)
    if "instances" in document:
        return PredictBody(name, _from_instances(_instances(document), types, step), True)
    if "inputs" in document:
        return PredictBody(name, _from_inputs(document["inputs"], types, step), False)
    raise invalid("Missing 'inputs' or 'instances' key")


def _types(name: str, input_types: InputTypesOf) -> InputTypes:
    types = input_types(name)
    if not types:
        raise invalid(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    return types


def format_error(value: Any, what: str) -> StatusError:
    """Return the error for a part of the body with the wrong form."""
    return invalid(f"JSON Value: {describe(value)} {what}")


def signature_name(document: Any) -> str:
    """Return the signature's name in a body; raise if the body is no object or the name no string."""
    if not isinstance(document, dict):
        raise format_error(document, "Is not object")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise format_error(document, "not formatted correctly. 'signature_name' key must be a string value.")
    return name


def _instances(document: dict[str, Any]) -> list[Any]:
    instances = document["instances"]
    if "inputs" in document:
        text = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
        raise format_error(document, text)
    if not isinstance(instances, list):
        raise format_error(document, "Expecting 'instances' to be an list/array")
    if not instances:
        raise format_error(document, "No values in 'instances' array")
    return instances


# ----------------------------------------------------------------------- rows


class _Column:
    """The values of one input, collected instance by instance."""

    def __init__(self, number: int, step: Step) -> None:
        self.number = number
        self._step = step
        self.shape: tuple[int, ...] | None = None
        self.values: list[Any] = []

    def add(self, value: Any) -> None:
        shape = _dense_shape(value)
        values: list[Any] = []
        _fill(value, 0, shape, self.number, values, self._step)
        if self.shape is None:
            self.shape = shape
        elif math.prod(self.shape) != len(values):
            raise invalid(f"Expecting tensor size: {math.prod(self.shape)} but got: {len(values)}")
        elif self.shape != shape:
            raise invalid(f"Expecting shape {dtypes.shape_text(self.shape)} but got: {dtypes.shape_text(shape)}")
        self.values += values


def _from_instances(instances: list[Any], types: InputTypes, step: Step) -> dict[str, Array]:
    if not isinstance(instances[0], dict) and len(types) > 1:
        text = "instances is a plain list, but expecting list of objects as multiple input tensors required"
        raise invalid(f"{text} as per tensorinfo_map")
    columns = {name: _Column(number, step) for name, number in types.items()}
    named = _is_named(instances[0])
    for index, item in enumerate(instances):
        if named:
            _add_named(columns, item, index)
        else:
            _add_plain(next(iter(columns.values())), item, index)
    return {
        name: _to_array(name, column.values, (len(instances), *(column.shape or ())), column.number)
        for name, column in columns.items()
    }


def _is_named(item: Any) -> bool:
    return isinstance(item, dict) and not is_base64(item)


def _add_named(columns: dict[str, _Column], item: Any, index: int) -> None:
    if not _is_named(item):
        raise invalid(f"Expecting object but got list at item {index} of input list")
    added: set[str] = set()
    for name, value in pairs(item):
        try:
            if name not in columns:
                raise invalid(f"JSON object: does not have named input: {name}")
            if name not in added:
                columns[name].add(value)
        except StatusError as error:
            text = f"Failed to process element: {index} key: {name} of 'instances' list. Error: {error}"
            raise invalid(text) from None
        added.add(name)
    if added != columns.keys():
        text = f"Failed to process element: {index} of 'instances' list. JSON object: {describe(item)}"
        raise invalid(f"{text} keys must be equal to: {','.join(sorted(columns))}")


def _add_plain(column: _Column, item: Any, index: int) -> None:
    if _is_named(item):
        raise invalid(f"Expecting value/list but got object at item {index} of input list")
    try:
        column.add(item)
    except StatusError as error:
        raise invalid(f"Failed to process element: {index} of 'instances' list. Error: {error}") from None


# -------------------------------------------------------------------- columns


def _from_inputs(inputs: Any, types: InputTypes, step: Step) -> dict[str, Array]:
    if _is_named(inputs):
        for name in types:
            if name not in inputs:
                raise invalid(f"Missing named input: {name} in 'inputs' object.")
        return {name: _dense(name, inputs[name], number, step) for name, number in types.items()}
    if len(types) > 1:
        text = "inputs is a plain value/list, but expecting an object as multiple input tensors required"
        raise invalid(f"{text} as per tensorinfo_map")
    name, number = next(iter(types.items()))
    return {name: _dense(name, inputs, number, step)}


def _dense(name: str, value: Any, number: int, step: Step) -> Array:
    column = _Column(number, step)
    column.add(value)
    return _to_array(name, column.values, column.shape or (), number)


# --------------------------------------------------------------------- values


def _dense_shape(value: Any) -> tuple[int, ...]:
    """Return the shape by the first element of every list."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    if len(shape) > MAX_DIMENSIONS:
        raise invalid(f"Too many dimensions: {len(shape)}")
    return tuple(shape)


def _fill(value: Any, level: int, shape: tuple[int, ...], number: int, values: list[Any], step: Step) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            text = f"JSON Value: {describe(value)} found at incorrect level: {level + 1} in the JSON DOM."
            raise invalid(f"{text} Expected at level: {len(shape)}")
        values.append(_checked(value, number))
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        text = f"Encountered list at unexpected size: {len(value)} at level: {level}"
        raise invalid(f"{text} expected size: {shape[level]}")
    for start in range(0, len(value), _AT_ONCE):
        step()
        for item in value[start : start + _AT_ONCE]:
            _fill(item, level + 1, shape, number, values, step)


_KINDS: dict[int, Any] = {
    **dict.fromkeys(quick.LIMITS, int),
    **dict.fromkeys(quick.FLOATS, (int, float)),
    dtypes.DT_STRING: str,
    dtypes.DT_BOOL: bool,
}
"""JSON's types for each dtype, except for true and false."""


def _accepts(value: Any, number: int) -> bool:
    if isinstance(value, bool) != (number == dtypes.DT_BOOL) or not isinstance(value, _KINDS[number]):
        return False
    limits = quick.LIMITS.get(number)
    return limits is None or bool(limits[0] <= value <= limits[1])


def _checked(value: Any, number: int) -> Any:
    """Return the value for numpy; raise if JSON cannot hold it in this dtype."""
    if number == dtypes.DT_STRING and isinstance(value, dict):
        return decode_base64(value)
    if isinstance(value, dict):
        raise _type_error(value, number)
    if number not in _KINDS:
        text = f"Conversion of JSON Value: {describe(value)} to type: {dtypes.name_of(number)}"
        raise StatusError(Code.UNIMPLEMENTED, text)
    if not _accepts(value, number):
        raise _type_error(value, number)
    if number == dtypes.DT_FLOAT and math.isfinite(value) and abs(value) >= _FLOAT_OVERFLOW:
        raise invalid(f"Cannot convert JSON value: {describe(value)} to float without loss of precision.")
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


# From here on the nearest float32 is infinity.
_FLOAT_OVERFLOW = dtypes.LARGEST_FLOAT["float32"] + 2.0**103


def _type_error(value: Any, number: int) -> StatusError:
    text = f"JSON Value: {describe(value)} Type: {type_name(value)} is not of expected type:"
    return invalid(f"{text} {dtypes.name_of(number)}")


def _to_array(name: str, values: list[Any], shape: tuple[int, ...], number: int) -> Array:
    if len(shape) > MAX_DIMENSIONS:
        raise invalid(f"tensor parsing error: {name}")
    if number == dtypes.DT_STRING:
        strings = np.empty(len(values), dtype=object)
        strings[:] = values
        return strings.reshape(shape)
    if number == dtypes.DT_BOOL or not values:
        return np.array(values, dtypes.numpy_dtype(number)).reshape(shape)
    found = quick.packed(values, shape, number)
    assert found is not None
    return found
