"""application/x-npy and application/x-npz: numpy's own files, never unpickled.

An array is the input of a model with one input, prepared as the model wants it: pixels in an npy file are
not resized or scaled. In an npz file every array is named after an input.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from lightbox.codecs.base import DecodedRequest, Target
from lightbox.codecs.media_type import ContentType
from lightbox.codecs.npz_members import is_zip, read_members
from lightbox.codecs.tensors import fitted, numpy_dtype, only_input
from lightbox.errors import InputMismatch, MalformedBody
from lightbox.model_spec import Array, SignatureSpec, TensorSpec
from lightbox.telemetry.clock import RequestClock

_READ_HEADER = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
_KINDS = "biufcSU"
_MAX_HEADER = 10_000
_MAX_RANK = 32
UNNAMED = "arr_0"
"""What numpy calls the first array that ``savez`` was given without a name."""


class NpyCodec:
    """Reads one array, or with the bytes of a zip file several by name; ``max_mb`` bounds them in MiB."""

    def __init__(self, max_mb: int) -> None:
        self._max_mb = max_mb

    def decode(self, body: bytes, content_type: ContentType, target: Target) -> DecodedRequest:
        """See RequestCodec.decode."""
        signature = target.find_signature(None)
        with target.clock.stage("decode"):
            if not is_zip(body):
                spec = only_input(signature, content_type.name)
                return DecodedRequest(signature, _fitted({spec.name: read_npy(body)}, signature, target.clock))
            arrays = {name: read_npy(member) for name, member in read_members(body, self._max_mb, target.clock).items()}
            if arrays.keys() == {UNNAMED} and len(signature.inputs) == 1:
                arrays = dict.fromkeys(signature.inputs, arrays[UNNAMED])
            if arrays.keys() != signature.inputs.keys():
                raise InputMismatch(
                    f"npz: expected arrays named {', '.join(signature.inputs)}, got {', '.join(arrays)[:200] or 'none'}"
                )
            return DecodedRequest(signature, _fitted(arrays, signature, target.clock))


def _fitted(arrays: Mapping[str, Array], signature: SignatureSpec, clock: RequestClock) -> dict[str, Array]:
    """Return the arrays as the signature's inputs. Numbers weigh what the model wants, which may be 8 times as much."""
    specs = signature.inputs
    clock.memory.weigh(sum(array.size * _itemsize(array, specs[name]) for name, array in arrays.items()))
    casting = sum(_casting_bytes(array, specs[name]) for name, array in arrays.items())
    clock.memory.hold(2 * sum(array.nbytes for array in arrays.values()) + casting, "npy")
    return {name: fitted(array, specs[name]) for name, array in arrays.items()}


def _itemsize(array: Array, spec: TensorSpec) -> int:
    return array.itemsize if spec.is_string else numpy_dtype(spec).itemsize


def _casting_bytes(array: Array, spec: TensorSpec) -> int:
    if array.dtype.kind in "SU":
        return 2 * array.nbytes + 160 * array.size
    if spec.is_string or array.dtype == numpy_dtype(spec):
        return 0
    return array.size * (numpy_dtype(spec).itemsize + 3)  # and whether each is finite


def read_npy(data: bytes) -> Array:
    """Return the array in an npy file of version 1 or 2, a read-only view of ``data`` where it lies well.

    Numbers, bools, byte strings and text of any byte order, in row- or column-major order. The header is
    checked against the length of ``data`` first. Raises MalformedBody.
    """
    shape, fortran_order, dtype, offset = _read_header(data)
    if dtype.hasobject or dtype.names or dtype.subdtype or dtype.kind not in _KINDS or not dtype.itemsize:
        raise MalformedBody(f"npy: expected an array of numbers or strings, got {str(dtype)[:100]}")
    if len(shape) > _MAX_RANK or any(size < 0 for size in shape):
        raise MalformedBody(f"npy: no tensor has the shape {str(shape)[:100]}")
    if math.prod(shape) * dtype.itemsize != len(data) - offset:
        raise MalformedBody(
            f"npy: {str(shape)[:100]} of {dtype} are {math.prod(shape) * dtype.itemsize} bytes, "
            f"but {len(data) - offset} follow the header"
        )
    try:
        flat = np.frombuffer(data, dtype, offset=offset) if math.prod(shape) else np.empty(0, dtype)
        aligned = flat if flat.flags.aligned else flat.copy()
        return aligned.reshape(shape, order="F" if fortran_order else "C")
    except ValueError as error:
        raise MalformedBody(f"npy: the array cannot be read: {error}") from None


def _read_header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    stream = io.BytesIO(data)
    try:
        version = npy_format.read_magic(stream)
        if version not in _READ_HEADER:
            raise MalformedBody(f"npy: expected version 1 or 2 of the format, got {version}")
        shape, fortran_order, dtype = _READ_HEADER[version](stream, max_header_size=_MAX_HEADER)
    except MalformedBody:
        raise
    except Exception as error:
        # The header is a Python literal: what the parser raises for a broken one depends on its version.
        raise MalformedBody(f"npy: the header cannot be read: {str(error)[:100]}") from None
    return shape, fortran_order, dtype, stream.tell()
