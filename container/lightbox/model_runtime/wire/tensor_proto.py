"""ndarray to TensorProto and back, with TensorFlow's own rules on omitted fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.dtypes import MAX_DIMENSIONS
from lightbox.model_runtime.wire.messages import tensor_pb2
from lightbox.model_runtime.wire.protobuf import Fragments, delimited, read_varint, varint, varints, wrapped

Array = np.ndarray[Any, np.dtype[Any]]

MAX_BROADCAST_BYTES = 1 << 28
"""A proto may declare a large shape and fill it with one value; larger ones are refused."""

_DTYPE, _SHAPE, _CONTENT = 1, 2, 4


class MalformedTensor(ValueError):
    """A TensorProto whose type, shape and values do not make a tensor."""


def _shape(proto: tensor_pb2.TensorProto) -> tuple[int, ...]:
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if len(shape) > MAX_DIMENSIONS or any(size < 0 for size in shape) or math.prod(shape) >= 1 << 63:
        raise MalformedTensor(f"shape {shape}")
    return shape


def decode(proto: tensor_pb2.TensorProto, content: memoryview | None = None) -> Array:
    """Return the array of ``proto``; strings become an object array of bytes.

    ``tensor_content``, or ``content`` in its place, has precedence over the typed fields and is read without a copy
    (the array is then read-only). With fewer typed values than elements the last one fills the rest; none means zeros.
    Raises MalformedTensor where TensorFlow reports "tensor parsing error".
    """
    if dtypes.info(proto.dtype) is None:
        raise MalformedTensor(f"dtype {proto.dtype}")
    shape = _shape(proto)
    dtype = dtypes.numpy_dtype(proto.dtype)
    count = math.prod(shape)
    if count == 0:
        return np.empty(shape, dtype)
    found = content or proto.tensor_content  # every access makes a copy
    if found:
        return _from_content(found, proto.dtype, count).reshape(shape)
    return _from_fields(proto, dtype, count).reshape(shape)


def _from_content(content: bytes | memoryview, number: int, count: int) -> Array:
    if number == dtypes.DT_STRING:
        return _strings_from_content(bytes(content), count)
    dtype = dtypes.numpy_dtype(number)
    if len(content) != count * dtype.itemsize:
        raise MalformedTensor(f"{len(content)} bytes for {count} values of {dtype.itemsize}")
    found = np.frombuffer(content, dtype)
    return found if found.flags.aligned else found.copy()  # only the last input of a message is always aligned


def _strings_from_content(content: bytes, count: int) -> Array:
    """Read ``count`` lengths as varints, then the strings one after another."""
    if count > len(content):
        raise MalformedTensor(f"{len(content)} bytes for {count} strings")
    lengths, position = [], 0
    try:
        for _ in range(count):
            length, position = read_varint(content, position)
            lengths.append(length)
    except ValueError as error:
        raise MalformedTensor(str(error)) from None
    if position + sum(lengths) != len(content):
        raise MalformedTensor("string lengths do not add up")
    strings = np.empty(count, dtype=object)
    for index, length in enumerate(lengths):
        strings[index] = content[position : position + length]
        position += length
    return strings


def _from_fields(proto: tensor_pb2.TensorProto, dtype: np.dtype[Any], count: int) -> Array:
    if count * dtype.itemsize > MAX_BROADCAST_BYTES + proto.ByteSize() * dtype.itemsize:
        raise MalformedTensor(f"{count} values declared, far more than given")
    numbers = _given_values(proto, dtype)[:count]
    if len(numbers) == count:
        return numbers
    values = np.empty(count, dtype)
    values[: len(numbers)] = numbers
    values[len(numbers) :] = numbers[-1] if len(numbers) else _nothing(dtype)
    return values


def _nothing(dtype: np.dtype[Any]) -> Any:
    return b"" if dtype.kind == "O" else np.zeros((), dtype)


def _given_values(proto: tensor_pb2.TensorProto, dtype: np.dtype[Any]) -> Array:
    """Return the values in the dtype's typed field."""
    field = dtypes.info(proto.dtype).field  # type: ignore[union-attr]
    values = getattr(proto, proto.DESCRIPTOR.fields_by_number[field].name)
    read: Callable[[Any, np.dtype[Any]], Array] = _READERS.get(field, np.array)
    return read(values, dtype)


def _wrapped(values: Iterable[int], dtype: np.dtype[Any]) -> Array:
    """Convert integers from wider fields; as in C++, keep the low bits of each."""
    wide = np.array(values, np.int64)
    if dtype.names:
        return wide.astype(dtype[0]).view(dtype)
    return wide.astype(dtype)


def _halves(values: Iterable[int], dtype: np.dtype[Any]) -> Array:
    return np.array(values, np.int64).astype(np.uint16).view(dtype)


def _strings(values: Iterable[bytes], _: np.dtype[Any]) -> Array:
    items = list(values)
    strings = np.empty(len(items), dtype=object)
    strings[:] = items
    return strings


def _pairs(values: Iterable[float], dtype: np.dtype[Any]) -> Array:
    numbers = np.array(values, f"f{dtype.itemsize // 2}")
    return numbers[: len(numbers) // 2 * 2].view(dtype)


_READERS: dict[int, Callable[[Any, np.dtype[Any]], Array]] = {
    dtypes.INT_VAL: _wrapped,
    dtypes.STRING_VAL: _strings,
    dtypes.SCOMPLEX_VAL: _pairs,
    dtypes.DCOMPLEX_VAL: _pairs,
    dtypes.HALF_VAL: _halves,
    dtypes.FLOAT8_VAL: np.frombuffer,
}
"""Of the fields whose numbers are not simply those of the array."""


# ------------------------------------------------------------------ writing


def encode(array: Array, as_content: bool = False) -> Fragments:
    """Return ``array`` as the fragments of a serialized TensorProto (``b"".join`` them).

    Values go into the typed field, packed, as in TensorFlow Serving's responses; with ``as_content`` into
    ``tensor_content``. The bytes are encoded here: filling a message value by value takes twenty times as long for a
    large tensor, with the same result.
    """
    number = dtypes.number_of(array.dtype)
    head = varint(_DTYPE << 3) + varint(number) + delimited(_SHAPE, _shape_message(array.shape))
    if array.size == 0:
        return [head]
    if as_content:
        return [head, *wrapped(_CONTENT, [_content(array, number)])]
    return [head, *_field(array, number)]


def _shape_message(shape: tuple[int, ...]) -> bytes:
    return b"".join(delimited(2, b"\x08" + varint(size) if size else b"") for size in shape)


def _memory(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _content(array: Array, number: int) -> bytes | memoryview:
    if number != dtypes.DT_STRING:
        return _memory(array)
    items = _as_bytes(array)
    return b"".join(map(varint, map(len, items))) + b"".join(items)


def _as_bytes(array: Array) -> list[bytes]:
    return [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]


def _field(array: Array, number: int) -> Fragments:
    field = dtypes.info(number).field  # type: ignore[union-attr]
    if field == dtypes.STRING_VAL:
        return [delimited(field, item) for item in _as_bytes(array)]
    if field in _RAW_FIELDS:
        return wrapped(field, [_memory(array)])
    if field == dtypes.HALF_VAL:
        return [delimited(field, varints(np.ascontiguousarray(array).view(np.uint16)))]
    plain = array.view(array.dtype[0]) if array.dtype.names else array
    if plain.dtype.kind == "V":  # int4 and uint4 of ml_dtypes
        plain = plain.astype(np.int8)
    return [delimited(field, varints(plain))]


# Fields whose packed form is the array's memory: floats, booleans (one byte each), pairs of floats.
_RAW_FIELDS = {
    *(dtypes.FLOAT_VAL, dtypes.DOUBLE_VAL, dtypes.BOOL_VAL),
    *(dtypes.SCOMPLEX_VAL, dtypes.DCOMPLEX_VAL, dtypes.FLOAT8_VAL),
}


_OUTPUTS, _MODEL_SPEC = 1, 2
_KEY, _VALUE = 1, 2


def serialize(outputs: Mapping[str, np.ndarray[Any, Any]], model_spec: bytes, as_content: bool = False) -> bytes:
    """Return the serialized response; ``model_spec`` is a serialized ModelSpec.

    Values are in the typed fields of each TensorProto, or in ``tensor_content`` with ``as_content``.
    """
    parts: Fragments = []
    for name, array in outputs.items():
        tensor = wrapped(_VALUE, encode(array, as_content))
        parts += wrapped(_OUTPUTS, [delimited(_KEY, name.encode()), *tensor])
    parts.append(delimited(_MODEL_SPEC, model_spec))
    return b"".join(parts)
