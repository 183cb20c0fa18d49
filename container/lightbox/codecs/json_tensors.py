"""JSON's nested lists as the inputs of a signature, by TensorFlow Serving's rules.

One rule is stricter than TensorFlow Serving's: 8- and 16-bit integers outside their dtype are refused,
where it would let them wrap around. And float16 and uint16 can be read, which it refuses.
"""

from __future__ import annotations

import re
from binascii import Error as BadBase64
from binascii import a2b_base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from lightbox.codecs.json_numbers import Hollow, NumberList, RowList, Step
from lightbox.core.error_texts import shorten
from lightbox.core.errors import InputMismatch, MalformedBody
from lightbox.images.decode import is_image
from lightbox.model.casting import READ_AS, cast, dtype_number
from lightbox.model.spec import Array, SignatureSpec
from tfs_wire.rest import base64_value, quick, request
from tfs_wire.status import StatusError

_ECHO = 200
"""Characters of an error text that may quote the body."""
_NAME = 60
"""Characters of a key in it."""

_DATA_URI = re.compile(r"data:[^,]{0,200};base64,")
_MAGIC_DIGITS = 44
"""Base64 digits of the 32 bytes that tell an image."""


def read_instances(
    instances: list[Any], signature: SignatureSpec, has_bools: bool, step: Step = lambda: None
) -> dict[str, Array]:
    """Return the inputs of ``{"instances": [...]}``: values, or objects with a value for each input.

    ``has_bools`` says that the text may hold true or false; ``step`` is called in between. Raises
    InputMismatch for values that are not of their tensor's dtype or shape.
    """
    if not instances:
        raise InputMismatch("instances: expected at least one, got an empty list")
    _check_names(instances, signature)
    return _read({"instances": instances}, signature, has_bools, step)


def read_inputs(inputs: Any, signature: SignatureSpec, has_bools: bool, step: Step = lambda: None) -> dict[str, Array]:
    """Return the inputs of ``{"inputs": ...}``: a whole tensor, or an object with one for each input."""
    return _read({"inputs": inputs}, signature, has_bools, step)


def read_numbers(payload: Any, by_row: bool, signature: SignatureSpec, hollow: Hollow) -> dict[str, Array] | None:
    """Return the inputs in ``instances`` (``by_row``) or ``inputs`` of a text without its long lists.

    None where these are not regular, not all of the lists that the text has, or not for a tensor of numbers.
    """
    types = _types(signature)
    if not types or not quick.DTYPES.issuperset(types.values()):
        return None
    if isinstance(payload, RowList):
        found = payload.arrays(types) if by_row else None
    elif isinstance(payload, NumberList):
        found = _arrays_of({next(iter(types)): payload} if len(types) == 1 else None, types, hollow)
    elif payload and isinstance(payload, list | dict):
        found = _arrays_of(quick.columns(payload, by_row, types), types, hollow)
    else:
        return None
    return _cast(found, signature) if found is not None and hollow.all_used else None


def _arrays_of(columns: Mapping[str, Any] | None, types: Mapping[str, int], hollow: Hollow) -> dict[str, Array] | None:
    arrays = {name: _array(values, types[name], hollow) for name, values in (columns or {}).items()}
    found = {name: array for name, array in arrays.items() if array is not None}
    return found if len(found) == len(types) else None


def _array(values: Any, number: int, hollow: Hollow) -> Array | None:
    """Return an input: one long list, a long one in each row, or lists without any."""
    values = hollow.filled(values)
    if isinstance(values, NumberList):
        return values.array(number)
    rows = list(map(hollow.filled, values)) if isinstance(values, list) else []
    if not any(isinstance(row, NumberList) for row in rows):
        return quick.array(values, number)
    stacked: Array | None = None
    for index, row in enumerate(rows):
        array = row.array(number) if isinstance(row, NumberList) else None
        if array is None or (stacked is not None and stacked.shape[1:] != array.shape):
            return None
        if stacked is None:
            stacked = np.empty((len(rows), *array.shape), array.dtype)
        stacked[index] = array
    return stacked


def is_named(value: Any) -> bool:
    """Whether a JSON value is an object of inputs by name, not ``{"b64": "..."}``."""
    return isinstance(value, dict) and not base64_value.is_base64(value)


def _check_names(instances: list[Any], signature: SignatureSpec) -> None:
    """Say in a short sentence what otherwise would quote the whole instance, after TensorFlow Serving's first words."""
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


def _types(signature: SignatureSpec) -> dict[str, int]:
    numbers = {name: dtype_number(spec) for name, spec in signature.inputs.items()}
    return {name: READ_AS.get(number, number) for name, number in numbers.items()}


def _read(document: dict[str, Any], signature: SignatureSpec, has_bools: bool, step: Step) -> dict[str, Array]:
    return _cast(_arrays(document, _types(signature), has_bools, step), signature)


def _cast(arrays: Mapping[str, Array], signature: SignatureSpec) -> dict[str, Array]:
    return {
        name: cast(arrays[name], spec) if dtype_number(spec) in READ_AS else arrays[name]
        for name, spec in signature.inputs.items()
    }


def _arrays(document: dict[str, Any], types: Mapping[str, int], has_bools: bool, step: Step) -> dict[str, Array]:
    if not has_bools:
        (form, values), *_ = document.items()
        found = quick.regular(values, form == "instances", types)
        if found is not None:
            return found
    try:
        return request.read_predict_document(document, lambda _: types, step).inputs
    except StatusError as error:
        raise InputMismatch(f"JSON: {shorten(error.message.strip(), _ECHO)}") from None
    except RecursionError:
        raise InputMismatch("JSON: nested too deep") from None
    except (ValueError, OverflowError) as error:
        raise InputMismatch(f"JSON: {shorten(str(error), _ECHO)}") from None


def images_in_instances(instances: Any, signature: SignatureSpec) -> list[bytes] | None:
    """Return the encoded images in ``instances``, None when the first instance is no base64.

    An instance is a base64 value or an object that gives one to the model's only input. Raises
    MalformedBody for text that is no base64, and for a list that only begins with images.
    """
    if not isinstance(instances, list) or not instances:
        return None
    values = [_unnamed(instance, signature) for instance in instances]
    return _decoded(values) if _is_base64(values[0]) else None


def images_in_inputs(inputs: Any, signature: SignatureSpec) -> list[bytes] | None:
    """Return the encoded images in ``inputs``, one or a list, by name or not; None when they are none."""
    value = _unnamed(inputs, signature)
    return images_in_instances(value if isinstance(value, list) else [value], signature)


def all_images(values: list[Any]) -> bool:
    """Whether every value is a string of base64 that begins as an image does."""
    return bool(values) and all(isinstance(value, str) and _begins_as_image(value) for value in values)


def _unnamed(value: Any, signature: SignatureSpec) -> Any:
    """Return what an object gives to the model's only input, or the value itself."""
    (name,) = signature.inputs
    return value[name] if is_named(value) and value.keys() == {name} else value


def _is_base64(value: Any) -> bool:
    return isinstance(value, str) or base64_value.is_base64(value)


def _decoded(values: list[Any]) -> list[bytes]:
    return [_decode(value, index) for index, value in enumerate(values)]


def _decode(value: Any, index: int) -> bytes:
    if not _is_base64(value):
        raise MalformedBody(f"image {index + 1}: expected base64 like the first image, got another JSON value")
    text = value if isinstance(value, str) else value["b64"]
    prefix = _DATA_URI.match(text)
    try:
        return base64_value.decode_base64({"b64": text[prefix.end() :] if prefix else text})
    except StatusError:
        raise MalformedBody(f"image {index + 1}: the text is not valid base64") from None


def _begins_as_image(text: str) -> bool:
    prefix = _DATA_URI.match(text)
    start = prefix.end() if prefix else 0
    try:
        return is_image(a2b_base64(text[start : start + _MAGIC_DIGITS]))
    except (BadBase64, ValueError):
        return False
