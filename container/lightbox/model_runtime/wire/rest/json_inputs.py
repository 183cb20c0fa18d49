"""The inputs of predict in JSON to arrays: the reader of TensorFlow Serving's REST API and of all of Lightbox's JSON.

| form | an input's values |
|---|---|
| ``"instances": [value, ...]`` | one instance after another, for a signature with one input |
| ``"instances": [{name: value, ...}, ...]`` | the instances' values by name: exactly the inputs' names |
| ``"inputs": value`` | a whole tensor, for a signature with one input |
| ``"inputs": {name: value, ...}`` | whole tensors by name; further names count for nothing |

A value is a number, ``true``, ``false``, a string or ``{"b64": "..."}`` (bytes of a string tensor), or lists of values
as long as each other. An object is named inputs, unless it is ``{"b64": "..."}``.

| dtype | from | others are errors |
|---|---|---|
| float, double | numbers, NaN, Infinity, -Infinity | numbers that would become infinite |
| int8, int16, uint8 | integers of 32 bits: the low bits count | fractions, exponents, numbers beyond |
| other integers but uint16 | integers in their range | fractions, exponents, numbers beyond |
| bool | true, false | |
| string | strings, as UTF-8, and base64 | |

Long lists of numbers become arrays in C (``number_lists``), all other lists here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import orjson

from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest.base64_value import as_bytes, is_base64
from lightbox.model_runtime.wire.rest.json_document import load, shown
from lightbox.model_runtime.wire.rest.number_lists import (
    FLOATS,
    NUMERIC,
    Array,
    NumberList,
    RowList,
    Step,
    code_of,
    converted,
    parse_around_lists,
)
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

InputTypes = Mapping[str, int]
"""Input name to dtype number, as in the signature."""
InputTypesOf = Callable[[str], InputTypes]
"""Returns the inputs of a signature by its name, "" for the default one."""
AT_ONCE = 1 << 12
"""Values between two steps."""
_KINDS: dict[int, frozenset[type]] = {
    **dict.fromkeys(NUMERIC, frozenset({int})),
    **dict.fromkeys(FLOATS, frozenset({int, float})),
    dtypes.DT_STRING: frozenset({str, dict}),
    dtypes.DT_BOOL: frozenset({bool}),
}
"""The types of parsed JSON for each dtype."""


class PredictBody(NamedTuple):
    """The content of a predict call; ``by_row`` means that the response is by row too."""

    signature_name: str
    inputs: dict[str, Array]
    by_row: bool


def read_predict(body: bytes | bytearray, input_types: InputTypesOf) -> PredictBody:
    """Return the content of a predict call's body in TensorFlow Serving's REST API.

    ``input_types`` is called with the signature's name ("" if none is given) and returns its inputs; errors of the text
    come first. Raises StatusError.
    """
    partial = parse_around_lists(body, load)
    if partial is not None:
        try:
            found = _predict(partial.values, input_types)
            if partial.all_used:
                return found
        except StatusError:  # the general reader reports it
            pass
    return _predict(load(body), input_types)


def _predict(document: Any, input_types: InputTypesOf) -> PredictBody:
    name = signature_name(document)
    types = input_types(name)
    if not types:
        raise invalid(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    forms = [form for form in ("instances", "inputs") if form in document]
    if len(forms) != 1:
        raise invalid(f"JSON: expected one of 'instances' and 'inputs', got {' and '.join(forms) or 'neither'}")
    by_row = forms == ["instances"]
    return PredictBody(name, read_inputs(document[forms[0]], by_row, types), by_row)


def signature_name(document: Any) -> str:
    """Return the signature's name in a body; raise if the body is no object or the name no string."""
    if not isinstance(document, dict):
        raise invalid(f"JSON: expected an object, got {shown(document)}")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(f"signature_name: expected a string, got {shown(name)}")
    return name


def read_inputs(values: Any, by_row: bool, types: InputTypes, step: Step = lambda: None) -> dict[str, Array]:
    """Return the inputs in ``instances`` (``by_row``) or ``inputs``; ``step`` is called in between, and may raise.

    Long lists may still be text. Raises StatusError for values that do not fit; also for lists that must be parsed.
    """
    if isinstance(values, RowList) and by_row:
        return _from_pieces(values, types, step)
    try:
        return {name: _array(name, nested, types[name], step) for name, nested in _columns(values, by_row, types)}
    except StatusError as error:
        if by_row:  # of one instance, every error is a mistake of the caller
            raise invalid(error.message) from None
        raise


def _from_pieces(rows: RowList, types: InputTypes, step: Step) -> dict[str, Array]:
    result: list[dict[str, Array]] = []
    for piece in rows.pieces():
        step()
        try:
            result.append(read_inputs(orjson.loads(piece), True, types, step))
        except orjson.JSONDecodeError:
            raise invalid("instances: expected a list of objects") from None
    for name in types:
        if len({arrays[name].shape[1:] for arrays in result}) != 1:
            raise invalid(f"input {name}: expected values of one shape")
    return {name: np.concatenate([arrays[name] for arrays in result]) for name in types}


def is_named(value: Any) -> bool:
    """Return whether a JSON value is an object of inputs by name, and not ``{"b64": "..."}``."""
    return isinstance(value, dict) and not is_base64(value)


def _columns(values: Any, by_row: bool, types: InputTypes) -> list[tuple[str, Any]]:
    """Return the nested values of each input."""
    form, names = "instances" if by_row else "inputs", types.keys()
    if by_row and not (isinstance(values, list | NumberList) and values):
        raise invalid(f"instances: expected a list of at least one, got {shown(values) if values != [] else '[]'}")
    rows = values if by_row and isinstance(values, list) else [values]
    if len(types) == 1 and not is_named(rows[0]):
        return [(name, values) for name in types]
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or (row.keys() != names if by_row else not names <= row.keys()):
            where = f"instances[{index}]" if by_row else form
            got = ", ".join(sorted(row)) or "an empty one" if isinstance(row, dict) else shown(row)
            raise invalid(f"{where}: expected an object with {', '.join(sorted(types))}; got {got}")
    return [(name, [row[name] for row in rows] if by_row else values[name]) for name in types]


def _array(name: str, nested: Any, number: int, step: Step) -> Array:
    if isinstance(nested, list) and nested and all(isinstance(row, NumberList) for row in nested):
        nested = NumberList(b"[%b]" % b",".join([row.take() for row in nested]), step)
    if isinstance(nested, NumberList):
        array = nested.array(number)
        if array is None:
            raise invalid(f"input {name}: expected numbers in lists as long as each other")
        return array
    shape, values = _flattened(name, nested)
    step()
    if number not in _KINDS and values:
        text = f"input {name}: Conversion of JSON Value: {shown(values[0])} to type: {dtypes.name_of(number)}"
        raise StatusError(Code.UNIMPLEMENTED, text)
    kinds = set(map(type, values))
    if kinds - _KINDS.get(number, kinds):
        _check(name, shape, values, number)
    if number in NUMERIC and values:
        return _packed(name, values, number).reshape(shape)
    array = np.empty(len(values), dtypes.numpy_dtype(number))
    for start in range(0, len(values), AT_ONCE):
        step()
        part = values[start : start + AT_ONCE]
        array[start : start + AT_ONCE] = list(map(as_bytes, part)) if number == dtypes.DT_STRING else part
    return array.reshape(shape)


def _check(name: str, shape: tuple[int, ...], values: list[Any], number: int) -> None:
    """Raise an error for the first value of another type than the dtype's."""
    for index, value in enumerate(values):
        if type(value) not in _KINDS[number] and not (isinstance(value, dict) and dict in _KINDS[number]):
            place = "".join(f"[{at}]" for at in np.unravel_index(index, shape))
            raise invalid(f"input {name}{place}: expected {dtypes.name_of(number)}, got {shown(value)}")


def _packed(name: str, values: list[Any], number: int) -> Array:
    try:
        # struct packs a list of numbers three times as fast as numpy or array.array.
        packed = np.frombuffer(struct.pack(f"={len(values)}{code_of(number)}", *values), code_of(number))
    except struct.error:
        packed = None
    found = None if packed is None else converted(packed, number)
    if found is None:
        raise invalid(f"input {name}: a number is beyond the range of {dtypes.name_of(number)}")
    return found


def _flattened(name: str, nested: Any) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape, by the first value of each list, and all values; raise for a list of another length."""
    shape: list[int] = []
    first = nested
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) > dtypes.MAX_DIMENSIONS:
        raise invalid(f"input {name}: Too many dimensions: {len(shape)}")
    level = nested if shape else [nested]
    for depth, size in enumerate(shape[1:], 1):
        if set(map(type, level)) != {list} or set(map(len, level)) != {size}:
            odd = next(value for value in level if not isinstance(value, list) or len(value) != size)
            got = f"{len(odd)} values" if isinstance(odd, list) else shown(odd)
            raise invalid(f"input {name}: expected lists of {size} values at depth {depth}, got {got}")
        level = list(chain.from_iterable(level))
    return tuple(shape), level
