"""Arrays from a user's preprocess to the dtypes of a signature: widened or narrowed, never wrapped around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lightbox.errors import HandlerFailed, InputMismatch
from lightbox.model_spec import Array, SignatureSpec, TensorSpec


def fit(inputs: Mapping[str, Any], signature: SignatureSpec) -> dict[str, Array]:
    """Return arrays in the dtypes that the signature wants; raise HandlerFailed unless names and shapes are its own.

    Lists and numbers become arrays, text becomes UTF-8. Floats are rounded to the wanted float; integers
    must be in range; fractions never become integers.
    """
    try:
        arrays = {name: _array(name, value, signature.inputs.get(name)) for name, value in inputs.items()}
        signature.check_inputs(arrays)
    except InputMismatch as error:
        raise HandlerFailed(f"preprocess returned what the model cannot take: {error.message}") from error
    return arrays


def _array(name: str, value: Any, spec: TensorSpec | None) -> Array:
    try:
        array = np.asarray(value, object if spec and spec.is_string else None)  # "S" arrays drop trailing zeros
    except ValueError as error:
        raise InputMismatch(f"input {name}: no array can be made of it: {error}") from None
    if spec is None:
        return array
    if spec.is_string:
        return _strings(name, array)
    wanted = _numpy_dtype(spec)
    if wanted is None or array.dtype == wanted or array.dtype.kind not in "biuf":
        return array
    return _cast(spec, array, wanted)


def _strings(name: str, array: Array) -> Array:
    out = np.empty(array.size, object)
    out[:] = [_bytes(name, element) for element in array.ravel().tolist()]
    return out.reshape(array.shape)


def _bytes(name: str, element: Any) -> bytes:
    if isinstance(element, str):
        return element.encode()
    if not isinstance(element, bytes):
        raise InputMismatch(f"input {name}: expected str or bytes, got {type(element).__name__}")
    return element


def _numpy_dtype(spec: TensorSpec) -> np.dtype[Any] | None:
    try:
        return np.dtype(spec.dtype)
    except TypeError:
        return None


def _cast(spec: TensorSpec, array: Array, wanted: np.dtype[Any]) -> Array:
    """Cast where no value changes by more than rounding; otherwise return the array for the check to refuse."""
    if wanted.kind == "f":
        with np.errstate(over="ignore"):
            cast = array.astype(wanted)
        if np.isinf(cast).sum() != np.isinf(array).sum():
            raise InputMismatch(f"input {spec.name}: a number is too large for {spec.dtype}")
        return cast
    if wanted.kind not in "iu" or array.dtype.kind not in "iu":
        return array
    if array.size:
        limits = np.iinfo(wanted)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise InputMismatch(
                f"input {spec.name}: {spec.dtype} holds {limits.min} to {limits.max}, got {low} to {high}"
            )
    return array.astype(wanted)
