"""Arrays of a body as the tensors of a signature: no value changes silently."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lightbox.base.error_texts import shorten
from lightbox.base.errors import HandlerFailed, InputMismatch
from lightbox.model.spec import Array, SignatureSpec, TensorSpec
from lightbox.model_runtime.wire import dtypes

_ECHO = 40
"""Most characters of a number in an error."""
_READ_AS = {
    **dict.fromkeys((dtypes.DT_INT8, dtypes.DT_UINT8, dtypes.DT_INT16, dtypes.DT_UINT16), dtypes.DT_INT32),
    dtypes.DT_HALF: dtypes.DT_DOUBLE,
}


def numpy_dtype(spec: TensorSpec) -> np.dtype[Any]:
    """Return the dtype of a tensor of numbers; raise InputMismatch if numpy has none."""
    if spec.dtype not in dtypes.PLAIN:
        raise InputMismatch(f"input {spec.name}: a tensor of {spec.dtype} cannot be sent")
    return np.dtype(spec.dtype)


def read_as(spec: TensorSpec) -> int:
    """Return TensorFlow's number of the dtype for parsed JSON numbers, which ``cast`` may narrow.

    Raises InputMismatch for a dtype that cannot be sent.
    """
    number = dtypes.DT_STRING if spec.is_string else dtypes.number_of(numpy_dtype(spec))
    return _READ_AS.get(number, number)


def only_input(signature: SignatureSpec, media_type: str) -> TensorSpec:
    """Return the one input of a signature; raise InputMismatch when it has several."""
    if len(signature.inputs) != 1:
        raise InputMismatch(
            f"{media_type} carries one input, but the signature {signature.name!r} of the model "
            f"{signature.model!r} takes {', '.join(map(str, signature.inputs.values()))}; send application/json"
        )
    return next(iter(signature.inputs.values()))


def fitted(array: Array, spec: TensorSpec) -> Array:
    """Return ``array`` as ``cast`` does, with a batch dimension of 1 if only that is missing."""
    tensor = cast(array, spec)
    shape = spec.shape
    if shape is not None and tensor.ndim == len(shape) - 1 and shape[0] in (None, 1):
        return tensor[np.newaxis]
    return tensor


def cast(array: Array, spec: TensorSpec) -> Array:
    """Return ``array`` in the tensor's dtype, row-major.

    Integers must be in the range of an integer tensor, which takes no fractions. Floats are rounded to a float
    tensor, unless they would become infinite. Byte strings and text become a string tensor. Raises InputMismatch.
    """
    return _strings(array, spec) if spec.is_string else _numbers(array, spec)


def string_tensor(elements: Iterable[bytes]) -> Array:
    """Return byte strings as an array of one dimension."""
    items = list(elements)
    tensor = np.empty(len(items), object)
    tensor[:] = items
    return tensor


def _strings(array: Array, spec: TensorSpec) -> Array:
    if array.dtype.kind not in "SUO":
        raise _mismatch(array, spec)
    if array.dtype.kind == "U":
        _check_characters(array, spec)
    try:
        items = [item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()]
    except ValueError as error:
        raise InputMismatch(f"input {spec.name}: the text is not valid: {error}") from None
    if others := set(map(type, items)) - {bytes}:
        raise InputMismatch(f"input {spec.name}: expected str or bytes, got {others.pop().__name__}")
    return string_tensor(items).reshape(array.shape)


def _check_characters(array: Array, spec: TensorSpec) -> None:
    """Refuse invalid characters: numpy's text has four bytes for each, and Python fails badly on invalid ones."""
    text = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if (text.reshape(-1).view(np.uint32) > sys.maxunicode).any():
        raise InputMismatch(f"input {spec.name}: the text is not valid")


def _numbers(array: Array, spec: TensorSpec) -> Array:
    dtype = numpy_dtype(spec)
    came, expected = array.dtype.kind, dtype.kind
    if array.dtype == dtype:
        return np.ascontiguousarray(array).reshape(array.shape)
    if came == "b" or expected == "b" or came not in "iufc" or (came == "c" and expected != "c"):
        raise _mismatch(array, spec)
    if expected in "iu" and array.size:
        if came == "f" and (others := ~np.isfinite(array) | (np.trunc(array) != array)).any():
            raise _fraction(array[others][0].item(), spec)
        # As Python's numbers, which compare exactly: 2**63 is a float, the limit below it is not.
        _check_range(array.min().item(), array.max().item(), dtype, spec)
    with np.errstate(over="ignore"):
        converted = array.astype(dtype, order="C")
    if expected in "fc" and (np.isfinite(array) & ~np.isfinite(converted)).any():
        raise _out_of_range(spec)
    return converted


def numbers(values: Sequence[Any], spec: TensorSpec) -> Array:
    """Return Python's numbers, or bools for a bool tensor, as ``cast`` returns an array; integers stay exact."""
    dtype = numpy_dtype(spec)
    kinds = set(map(type, values))
    expected: set[type] = {bool} if dtype.kind == "b" else {int, float}
    if not kinds <= expected:
        came = ", ".join(sorted(kind.__name__ for kind in kinds - expected))
        raise InputMismatch(f"input {spec.name}: expected {spec.dtype}, got {came}")
    if dtype.kind in "iu":
        if float in kinds:
            for value in values:
                if isinstance(value, float) and not value.is_integer():
                    raise _fraction(value, spec)
            values = list(map(int, values))
        if values:
            _check_range(min(values), max(values), dtype, spec)
        return np.array(values, dtype)
    try:
        return cast(np.array(values, bool if dtype.kind == "b" else np.float64), spec)
    except OverflowError:
        raise _out_of_range(spec) from None


def _fraction(value: float, spec: TensorSpec) -> InputMismatch:
    return InputMismatch(f"input {spec.name}: expected whole numbers for {spec.dtype}, got {value}")


def _out_of_range(spec: TensorSpec) -> InputMismatch:
    return InputMismatch(f"input {spec.name}: a number is beyond the range of {spec.dtype}")


def _check_range(low: float, high: float, dtype: np.dtype[Any], spec: TensorSpec) -> None:
    limits = np.iinfo(dtype)
    if not limits.min <= low <= high <= limits.max:
        got = f"{_number_text(low)} to {_number_text(high)}"
        raise InputMismatch(f"input {spec.name}: {spec.dtype} holds {limits.min} to {limits.max}, got {got}")


def _number_text(number: float) -> str:
    """Return a number's text, in exponent form if it is long."""
    text = str(number)
    is_long = len(text) > _ECHO and abs(number) <= sys.float_info.max
    return str(float(number)) if is_long else shorten(text, _ECHO)


def _mismatch(array: Array, spec: TensorSpec) -> InputMismatch:
    came = "string" if array.dtype.kind in "SU" else array.dtype.name
    return InputMismatch(f"input {spec.name}: expected {spec.dtype}, got {came}")


def fit(inputs: Mapping[str, Any], signature: SignatureSpec) -> dict[str, Array]:
    """Return arrays in the dtypes of the signature; raise HandlerFailed for other names or shapes.

    Lists and numbers become arrays, text becomes UTF-8. Floats are rounded to the float dtype; integers must be in
    range; floats never become integers.
    """
    try:
        arrays = {name: _array(name, value, signature.inputs.get(name)) for name, value in inputs.items()}
        signature.check_inputs(arrays)
        if misfit := signature.misfit(arrays):
            raise InputMismatch(misfit)
    except InputMismatch as error:
        raise HandlerFailed(f"preprocess returned a value that the model does not accept: {error.message}") from error
    return arrays


def _array(name: str, value: Any, spec: TensorSpec | None) -> Array:
    try:
        array = np.asarray(value, object if spec and spec.is_string else None)  # "S" arrays drop trailing zeros
    except ValueError as error:
        raise InputMismatch(f"input {name}: it cannot be converted to an array: {error}") from None
    if spec is None:
        return array
    if spec.is_string:
        return cast(array, spec)
    if spec.dtype not in dtypes.PLAIN:
        return array
    came, wanted = array.dtype.kind, numpy_dtype(spec).kind
    if came == "b" and wanted == "f":
        return array.astype(spec.dtype)
    # The check of dtypes refuses another array: a handler's fractions may be a mistake.
    return cast(array, spec) if (came in "iu" and wanted in "iuf") or came == wanted == "f" else array
