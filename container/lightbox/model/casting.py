"""Arrays that were read from a body, as the tensors that a signature wants: no value changes unnoticed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lightbox.core.errors import HandlerFailed, InputMismatch
from lightbox.model.spec import Array, SignatureSpec, TensorSpec
from tfs_wire import dtypes

_DTYPE_OF: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
_NUMBER_OF = {name: dtypes.number_of(dtype) for name, dtype in {**_DTYPE_OF, "string": np.dtype(object)}.items()}


def numpy_dtype(spec: TensorSpec) -> np.dtype[Any]:
    """Return the dtype of a tensor of numbers; raise InputMismatch for one that numpy lacks."""
    if spec.dtype not in _DTYPE_OF:
        raise InputMismatch(f"input {spec.name}: a tensor of {spec.dtype} cannot be sent")
    return _DTYPE_OF[spec.dtype]


def dtype_number(spec: TensorSpec) -> int:
    """Return the number of TensorFlow's DataType; raise InputMismatch for one that cannot be sent."""
    if spec.dtype not in _NUMBER_OF:
        raise InputMismatch(f"input {spec.name}: a tensor of {spec.dtype} cannot be sent")
    return _NUMBER_OF[spec.dtype]


def only_input(signature: SignatureSpec, media_type: str) -> TensorSpec:
    """Return the one input of a signature; raise InputMismatch when it has several."""
    if len(signature.inputs) != 1:
        raise InputMismatch(
            f"{media_type} carries one input, but the signature {signature.name!r} of the model "
            f"{signature.model!r} takes {', '.join(map(str, signature.inputs.values()))}; send application/json"
        )
    return next(iter(signature.inputs.values()))


def fitted(array: Array, spec: TensorSpec) -> Array:
    """Return ``array`` as ``cast`` does, with a batch dimension of 1 where just that is missing."""
    tensor = cast(array, spec)
    shape = spec.shape
    if shape is not None and tensor.ndim == len(shape) - 1 and shape[0] in (None, 1):
        return tensor[np.newaxis]
    return tensor


def cast(array: Array, spec: TensorSpec) -> Array:
    """Return ``array`` in the tensor's dtype, row-major.

    Integers must lie in the range of an integer tensor and fractions are refused there; floats are rounded
    to a float tensor, and refused where they would become infinite. Byte strings and text make a string
    tensor. Raises InputMismatch.
    """
    return _strings(array, spec) if spec.is_string else _numbers(array, spec)


def string_tensor(elements: Iterable[bytes]) -> Array:
    """Return byte strings as an array of one dimension."""
    items = list(elements)
    tensor = np.empty(len(items), object)
    tensor[:] = items
    return tensor


def _strings(array: Array, spec: TensorSpec) -> Array:
    if array.dtype.kind not in "SU":
        raise _mismatch(array, spec)
    if array.dtype.kind == "U":
        _check_characters(array, spec)
    try:
        items = [item.encode() if isinstance(item, str) else bytes(item) for item in array.ravel().tolist()]
    except ValueError as error:
        raise InputMismatch(f"input {spec.name}: the text is not valid: {error}") from None
    return string_tensor(items).reshape(array.shape)


def _check_characters(array: Array, spec: TensorSpec) -> None:
    """numpy's text is four bytes a character, and Python fails badly on one that does not exist."""
    text = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if (text.reshape(-1).view(np.uint32) > sys.maxunicode).any():
        raise InputMismatch(f"input {spec.name}: the text is not valid")


def _numbers(array: Array, spec: TensorSpec) -> Array:
    dtype = numpy_dtype(spec)
    came, wanted = array.dtype.kind, dtype.kind
    if array.dtype == dtype:
        return np.ascontiguousarray(array).reshape(array.shape)
    if came == "b" or wanted == "b" or came not in "iufc" or (came == "c" and wanted != "c"):
        raise _mismatch(array, spec)
    if wanted in "iu":
        _check_integers(array, dtype, spec)
    with np.errstate(over="ignore"):
        converted = array.astype(dtype, order="C")
    if wanted in "fc" and (np.isfinite(array) & ~np.isfinite(converted)).any():
        raise InputMismatch(f"input {spec.name}: a number is beyond the range of {spec.dtype}")
    return converted


def _check_integers(array: Array, dtype: np.dtype[Any], spec: TensorSpec) -> None:
    if not array.size:
        return
    if array.dtype.kind == "f" and not (np.isfinite(array) & (np.trunc(array) == array)).all():
        raise InputMismatch(f"input {spec.name}: expected whole numbers for {spec.dtype}, got fractions")
    limits = np.iinfo(dtype)
    # As Python's numbers, which compare exactly: 2**63 is a float, the limit below it is none.
    low, high = array.min().item(), array.max().item()
    if not limits.min <= low <= high <= limits.max:
        raise InputMismatch(
            f"input {spec.name}: expected {spec.dtype} from {limits.min} to {limits.max}, got {low} to {high}"
        )


def _mismatch(array: Array, spec: TensorSpec) -> InputMismatch:
    came = "string" if array.dtype.kind in "SU" else array.dtype.name
    return InputMismatch(f"input {spec.name}: expected {spec.dtype}, got {came}")


def fit(inputs: Mapping[str, Any], signature: SignatureSpec) -> dict[str, Array]:
    """Return arrays in the dtypes that the signature wants; raise HandlerFailed unless names and shapes are its own.

    Lists and numbers become arrays, text becomes UTF-8. Floats are rounded to the wanted float; integers
    must be in range; fractions never become integers.
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
        return _output_strings(name, array)
    wanted = _numpy_dtype(spec)
    if wanted is None or array.dtype == wanted or array.dtype.kind not in "biuf":
        return array
    return _cast(spec, array, wanted)


def _output_strings(name: str, array: Array) -> Array:
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
