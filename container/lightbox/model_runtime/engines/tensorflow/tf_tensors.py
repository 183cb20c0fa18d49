"""ndarrays in and out of the TensorFlow runtime."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, string_at
from typing import Any

import numpy as np

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.engines.tensorflow.library import tf
from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.status import Code, StatusError

STRING_BYTES = 24
"""Size of one ``TF_TString``."""


def to_tensor(array: Array) -> int:
    """Return a new ``TF_Tensor`` with a copy of ``array``; the caller deletes it.

    A copy, as a model may keep its input beyond the call.
    """
    number = dtypes.number_of(array.dtype)
    is_string = number == dtypes.DT_STRING
    size = array.size * STRING_BYTES if is_string else array.nbytes
    shape = (c_int64 * array.ndim)(*array.shape)
    tensor: int = tf.TF_AllocateTensor(number, shape, array.ndim, size)
    if not tensor:
        raise StatusError(Code.RESOURCE_EXHAUSTED, f"No memory for a tensor of {size} bytes")
    data = tf.TF_TensorData(tensor)
    if is_string:
        _write_strings(array, data)
    elif size:
        ctypes.memmove(data, np.ascontiguousarray(array).ctypes.data, size)
    return tensor


def _write_strings(array: Array, data: int) -> None:
    initialise, copy = tf.TF_StringInit, tf.TF_StringCopy
    for text in array.ravel().tolist():
        value = text if isinstance(text, bytes) else str(text).encode()
        initialise(data)
        copy(data, value, len(value))
        data += STRING_BYTES


class _TensorMemory:
    """Owns a ``TF_Tensor``, which numpy's array interface keeps alive."""

    def __init__(self, tensor: int, interface: dict[str, Any]) -> None:
        self._tensor = tensor
        self._delete = tf.TF_DeleteTensor
        self.__array_interface__ = interface

    def __del__(self) -> None:
        self._delete(self._tensor)


def from_tensor(tensor: int) -> Array:
    """Return the content of a ``TF_Tensor`` and take ownership: numbers are not copied, strings become bytes."""
    number = tf.TF_TensorType(tensor)
    shape = tuple(tf.TF_Dim(tensor, axis) for axis in range(tf.TF_NumDims(tensor)))
    if number == dtypes.DT_STRING:
        return _read_strings(tensor, shape)
    if dtypes.info(number) is None:
        tf.TF_DeleteTensor(tensor)
        text = f"Output of type {dtypes.name_of(number)} cannot be sent"
        raise StatusError(Code.UNIMPLEMENTED, text)
    dtype = dtypes.numpy_dtype(number)
    return _view(tensor, shape, dtype)


def _view(tensor: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if 0 in shape:
        tf.TF_DeleteTensor(tensor)
        return np.empty(shape, dtype)
    raw = f"|V{dtype.itemsize}"
    interface = {"version": 3, "shape": shape, "typestr": raw, "data": (tf.TF_TensorData(tensor), True)}
    return np.asarray(_TensorMemory(tensor, interface)).view(dtype)


def _read_strings(tensor: int, shape: tuple[int, ...]) -> Array:
    array = np.empty(shape, dtype=object)
    data, pointer, length = tf.TF_TensorData(tensor), tf.TF_StringGetDataPointer, tf.TF_StringGetSize
    places = range(data or 0, (data or 0) + array.size * STRING_BYTES, STRING_BYTES)
    flat = array.reshape(-1)
    for index, place in enumerate(places):
        flat[index] = string_at(pointer(place), length(place))
    tf.TF_DeleteTensor(tensor)
    return array
