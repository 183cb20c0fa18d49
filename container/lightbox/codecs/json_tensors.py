"""Convert JSON's nested lists to the inputs of a signature, by TensorFlow Serving's rules.

Two rules differ: 8- and 16-bit integers outside their dtype are refused instead of wrapped around, and float16 and
uint16 are accepted.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from lightbox.base.error_texts import shorten
from lightbox.base.errors import InputMismatch, MalformedBody
from lightbox.codecs.json_numbers import NumberList, RowList, Step
from lightbox.images.decode import is_image
from lightbox.model.casting import cast, read_as
from lightbox.model.spec import Array, SignatureSpec
from lightbox.model_runtime.wire.rest import base64_value, quick
from lightbox.model_runtime.wire.rest import predict_body as request
from lightbox.model_runtime.wire.status import StatusError

_ECHO = 200
"""Longest quotation of the body in an error, in characters."""
_NAME = 60
"""Longest key in an error, in characters."""

_DATA_URI = re.compile(r"data:[^,]{0,200};base64,")
_MAGIC_DIGITS = 44
"""Base64 digits of the 32 bytes that identify an image."""


def read(
    form: str, payload: Any, signature: SignatureSpec, has_bools: bool, step: Step = lambda: None
) -> dict[str, Array]:
    """Return the inputs of ``{"instances": [...]}`` or ``{"inputs": ...}``: values, or objects with one for each input.

    ``has_bools`` means that the text may hold true or false; ``step`` is called in between. Raises InputMismatch for
    values that do not fit their tensor's dtype or shape.
    """
    if form == "instances":
        if not payload:
            raise InputMismatch("instances: expected at least one, got an empty list")
        _check_names(payload, signature)
    found = None if has_bools else regular(form, payload, signature)
    return cast_all(_check_each(form, payload, signature, step) if found is None else found, signature)


def _check_each(form: str, payload: Any, signature: SignatureSpec, step: Step) -> Mapping[str, Array]:
    """Check each value, and raise an error that names the first wrong one."""
    types = _types(signature)
    try:
        return request.read_predict_document({form: payload}, lambda _: types, step).inputs
    except StatusError as error:
        raise InputMismatch(f"JSON: {shorten(error.message.strip(), _ECHO)}") from None
    except RecursionError:
        raise InputMismatch("JSON: nested too deep") from None
    except (ValueError, OverflowError) as error:
        raise InputMismatch(f"JSON: {shorten(str(error), _ECHO)}") from None


def regular(form: str, payload: Any, signature: SignatureSpec) -> dict[str, Array] | None:
    """Return the arrays of inputs that are regular lists of numbers, long lists or values; None for others.

    For texts without true and false, which would count as 1 and 0. ``cast_all`` converts them to the inputs' dtypes.
    """
    types, by_row = _types(signature), form == "instances"
    if not types or not quick.DTYPES.issuperset(types.values()):
        return None
    if isinstance(payload, RowList):
        return payload.arrays(types) if by_row else None
    if isinstance(payload, NumberList):
        columns = {next(iter(types)): payload} if len(types) == 1 else None
    else:
        columns = quick.columns(payload, by_row, types)
    arrays = {name: _array(values, types[name]) for name, values in (columns or {}).items()}
    whole = {name: array for name, array in arrays.items() if array is not None}
    return whole if len(whole) == len(types) else None


def _array(values: Any, number: int) -> Array | None:
    """Return an input: one long list, a long list in each row, or lists of values."""
    if isinstance(values, NumberList):
        return values.array(number)
    if not (isinstance(values, list) and values and isinstance(values[0], NumberList)):
        return quick.array(values, number)
    stacked: Array | None = None
    for index, row in enumerate(values):
        array = row.array(number) if isinstance(row, NumberList) else None
        if array is None or (stacked is not None and stacked.shape[1:] != array.shape):
            return None
        if stacked is None:
            stacked = np.empty((len(values), *array.shape), array.dtype)
        stacked[index] = array
    return stacked


def _types(signature: SignatureSpec) -> dict[str, int]:
    return {name: read_as(spec) for name, spec in signature.inputs.items()}


def cast_all(arrays: Mapping[str, Array], signature: SignatureSpec) -> dict[str, Array]:
    """Return arrays in the dtypes of the inputs; JSON's numbers have fewer. Raises InputMismatch."""
    specs = signature.inputs.items()
    return {name: arrays[name] if spec.is_string else cast(arrays[name], spec) for name, spec in specs}


def is_named(value: Any) -> bool:
    """Return whether a JSON value is an object of inputs by name, and not ``{"b64": "..."}``."""
    return isinstance(value, dict) and not base64_value.is_base64(value)


def _check_names(instances: list[Any], signature: SignatureSpec) -> None:
    """Raise a short error, with TensorFlow Serving's first words, where its own would quote the whole instance."""
    if not is_named(instances[0]):
        return
    for index, instance in enumerate(instances):
        if is_named(instance) and instance.keys() != signature.inputs.keys():
            names = shorten(", ".join(sorted(map(str, instance))), _ECHO)
            unknown = next((name for name in instance if name not in signature.inputs), None)
            key, has = ("", f"; it has {names or 'nothing'}") if unknown is None else (f" key: {unknown[:_NAME]}", "")
            raise InputMismatch(
                f"Failed to process element: {index}{key} of 'instances' list. "
                f"The signature {signature.name!r} of the model {signature.model!r} takes an object "
                f"with {', '.join(map(str, signature.inputs.values()))}{has}"
            )


def encoded_images(form: str, payload: Any, signature: SignatureSpec) -> list[bytes] | None:
    """Return the encoded images in ``instances`` or ``inputs``, None when the first value is not base64.

    Each is a base64 value, or an object with one for the model's only input; ``inputs`` may be one or a list, by
    name or not. Raises MalformedBody for invalid base64, and for lists of which only the first values are images.
    """
    whole = payload if form == "instances" else _unnamed(payload, signature)
    values = [_unnamed(value, signature) for value in (whole if isinstance(whole, list) else [whole])]
    if not values or not _is_base64(values[0]):
        return None
    return [_decoded(value, index) for index, value in enumerate(values)]


def all_images(values: list[Any]) -> bool:
    """Return whether every value is a base64 string that begins like an image."""
    return bool(values) and all(isinstance(value, str) and _begins_as_image(value) for value in values)


def _unnamed(value: Any, signature: SignatureSpec) -> Any:
    """Return an object's value for the model's only input, or the value itself."""
    (name,) = signature.inputs
    return value[name] if is_named(value) and value.keys() == {name} else value


def _is_base64(value: Any) -> bool:
    return isinstance(value, str) or base64_value.is_base64(value)


def _decoded(value: Any, index: int) -> bytes:
    if not _is_base64(value):
        raise MalformedBody(f"image {index + 1}: expected base64 like the first image, got another JSON value")
    text = value if isinstance(value, str) else value["b64"]
    try:
        return base64_value.decode_base64({"b64": text[_start(text) :]})
    except StatusError:
        raise MalformedBody(f"image {index + 1}: the text is not valid base64") from None


def _begins_as_image(text: str) -> bool:
    start = _start(text)
    try:
        return is_image(a2b_base64(text[start : start + _MAGIC_DIGITS]))
    except ValueError:
        return False


def _start(text: str) -> int:
    """Return where base64 begins: after the head of a data URI, if there is one."""
    head = _DATA_URI.match(text)
    return head.end() if head else 0
