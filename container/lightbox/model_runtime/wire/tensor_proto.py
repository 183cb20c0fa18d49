"""ndarray to TensorProto and back, with TensorFlow's own rules on omitted fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.dtypes import MAX_DIMENSIONS
from lightbox.model_runtime.wire.messages import tensor_pb2
from lightbox.model_runtime.wire.protobuf import Fragments, delimited, read_fields, read_varint, varint, wrapped

Array = np.ndarray[Any, np.dtype[Any]]

MAX_BROADCAST_BYTES = 1 << 28
"""A proto may declare a large shape and fill it with one value; larger ones are refused."""

_DTYPE, _SHAPE, _CONTENT = 1, 2, 4
_MOST_PARTS = 16 << 10
_Part = bytes | memoryview | Array
_Fields = dict[int, list[_Part]]
"""Parts of a message by the numbers of their fields; varints are decoded."""


class MalformedTensor(ValueError):
    """A TensorProto whose type, shape and values do not make a tensor."""


def _shape(proto: tensor_pb2.TensorProto) -> tuple[int, ...]:
    shape = tuple([dim.size for dim in proto.tensor_shape.dim])
    if len(shape) > MAX_DIMENSIONS or min(shape, default=0) < 0 or math.prod(shape) >= 1 << 63:
        raise MalformedTensor(f"shape {shape}")
    return shape


def decode(proto: tensor_pb2.TensorProto, content: memoryview | None = None) -> Array:
    """Return the array of ``proto``; strings become an object array of bytes.

    ``tensor_content``, or ``content`` in its place, has precedence over the typed fields and is read without a copy
    (the array is then read-only). With fewer typed values than elements the last one fills the rest; none means zeros.
    Raises MalformedTensor where TensorFlow reports "tensor parsing error".
    """
    if (row := dtypes.info(proto.dtype)) is None:
        raise MalformedTensor(f"dtype {proto.dtype}")
    fields: _Fields
    if found := content or proto.tensor_content:  # every access makes a copy
        fields = {_CONTENT: [found]}
    elif proto.dtype == dtypes.DT_STRING:
        fields = {dtypes.STRING_VAL: list(proto.string_val)}
    elif row.field in dtypes.VARINTS:
        fields = _varints(proto, row.field)
    else:
        _, fields = _split(memoryview(proto.SerializeToString()))
    array = _array(proto, fields, dtypes.numpy_dtype(proto.dtype))
    return array if array.flags.aligned else array.copy()  # only the last input of a message is always aligned


def read(data: memoryview) -> Array:
    """Return the array of a serialized TensorProto, as ``decode``; floats and ``tensor_content`` are views of ``data``.

    bfloat16 is widened to float32. Raises ValueError.
    """
    head, fields = _split(data)
    if head.dtype == dtypes.DT_STRING:
        return decode(_parsed(data))
    row = dtypes.info(head.dtype)
    if row is not None and row.field in dtypes.VARINTS and not fields.get(_CONTENT, [b""])[-1]:
        fields = _varints(_parsed(data), row.field)
    if head.dtype == dtypes.DT_BFLOAT16:
        return (_array(head, fields, np.dtype(np.uint16)).astype(np.uint32) << np.uint32(16)).view(np.float32)
    try:
        return _array(head, fields, dtypes.numpy_dtype(head.dtype))
    except (KeyError, ImportError):
        raise MalformedTensor(f"dtype {dtypes.name_of(head.dtype)} has no counterpart in numpy") from None


def _parsed(data: memoryview) -> tensor_pb2.TensorProto:
    try:
        return tensor_pb2.TensorProto.FromString(bytes(data))
    except DecodeError as error:
        raise MalformedTensor(str(error)) from None


def _varints(proto: tensor_pb2.TensorProto, field: int) -> _Fields:
    """Return the integers of a typed field."""
    values = getattr(proto, proto.DESCRIPTOR.fields_by_number[field].name)
    return {field: [np.array(values, np.uint64 if field == dtypes.UINT64_VAL else np.int64)]}


def _split(data: memoryview) -> tuple[tensor_pb2.TensorProto, _Fields]:
    """Return a message with dtype and shape, and the other fields; of strings, which are many, only the dtype."""
    head, fields = tensor_pb2.TensorProto(), _Fields()
    for count, (field, _, value) in enumerate(read_fields(data)):
        if count == _MOST_PARTS:
            raise MalformedTensor(f"more than {_MOST_PARTS} parts")
        if field == _DTYPE:
            head.dtype = read_varint(value, 0)[0]
            if head.dtype == dtypes.DT_STRING:
                break
        elif field == _SHAPE:
            head.tensor_shape.MergeFromString(bytes(value))
        else:
            fields.setdefault(field, []).append(value)
    return head, fields


def _array(proto: tensor_pb2.TensorProto, fields: _Fields, dtype: np.dtype[Any]) -> Array:
    shape = _shape(proto)
    if (count := math.prod(shape)) == 0:
        return np.empty(shape, dtype)
    if content := fields.get(_CONTENT, [b""])[-1]:
        return _from_content(content, dtype, count).reshape(shape)
    given = fields.get(dtypes.info(proto.dtype).field, ())  # type: ignore[union-attr]
    if count * dtype.itemsize > MAX_BROADCAST_BYTES + sum(map(len, given)) * dtype.itemsize:
        raise MalformedTensor(f"{count} values declared, far more than given")
    numbers = _given_values(given, proto.dtype, dtype)[:count]
    if len(numbers) < count:
        values = np.empty(count, dtype)
        values[: len(numbers)] = numbers
        values[len(numbers) :] = numbers[-1] if len(numbers) else _nothing(dtype)
        numbers = values
    return numbers.reshape(shape)


def _from_content(content: _Part, dtype: np.dtype[Any], count: int) -> Array:
    if dtype.hasobject:
        return _strings_from_content(bytes(content), count)
    if len(content) != count * dtype.itemsize:
        raise MalformedTensor(f"{len(content)} bytes for {count} values of {dtype.itemsize}")
    return np.frombuffer(content, dtype)


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


def _nothing(dtype: np.dtype[Any]) -> Any:
    return b"" if dtype.kind == "O" else np.zeros((), dtype)


def _given_values(given: Sequence[_Part], number: int, dtype: np.dtype[Any]) -> Array:
    """Return the values in the parts of the dtype's typed field."""
    field = dtypes.info(number).field  # type: ignore[union-attr]
    if field == dtypes.STRING_VAL:
        strings = np.empty(len(given), dtype=object)
        strings[:] = given
        return strings
    packed = given[0] if len(given) == 1 else b"".join(given)  # type: ignore[arg-type]
    if field not in dtypes.VARINTS:
        return np.frombuffer(packed[: len(packed) // dtype.itemsize * dtype.itemsize], dtype)
    assert isinstance(packed, np.ndarray)
    numbers = packed.view(np.int64)  # of wider fields; as in C++, keep the low bits of each
    if field == dtypes.HALF_VAL:
        return numbers.astype(np.uint16).view(dtype)
    return numbers.astype(dtype[0]).view(dtype) if dtype.names else numbers.astype(dtype)


# ------------------------------------------------------------------ writing


def encode(array: Array, as_content: bool = False) -> Fragments:
    """Return ``array`` as the fragments of a serialized TensorProto (``b"".join`` them).

    Values go into the typed field, packed, as in TensorFlow Serving's responses; with ``as_content`` into
    ``tensor_content``. Floats are encoded here: filling a message value by value takes twenty times as long for a large
    tensor, with the same result.
    """
    number = dtypes.number_of(array.dtype)
    head = _head(number, array.shape)
    if array.size == 0:
        return [head]
    if as_content:
        return [head, *wrapped(_CONTENT, [_content(array, number)])]
    return [head, *_field(array, number)]


@lru_cache(maxsize=256)
def _head(number: int, shape: tuple[int, ...]) -> bytes:
    sizes = b"".join(delimited(2, b"\x08" + varint(size) if size else b"") for size in shape)
    return varint(_DTYPE << 3) + varint(number) + delimited(_SHAPE, sizes)


def _memory(array: Array) -> memoryview:
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(native).reshape(-1).view(np.uint8).data


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
    plain = array.view(array.dtype[0]) if array.dtype.names else array
    if field == dtypes.HALF_VAL:
        plain = np.ascontiguousarray(array).view(np.uint16)
    elif plain.dtype.kind == "V":  # int4 and uint4 of ml_dtypes
        plain = plain.astype(np.int8)
    proto = tensor_pb2.TensorProto()
    getattr(proto, proto.DESCRIPTOR.fields_by_number[field].name).extend(plain.ravel().tolist())
    return [proto.SerializeToString()]


# Fields whose packed form is the array's memory: floats, booleans (one byte each), pairs of floats.
_RAW_FIELDS = {
    *(dtypes.FLOAT_VAL, dtypes.DOUBLE_VAL, dtypes.BOOL_VAL),
    *(dtypes.SCOMPLEX_VAL, dtypes.DCOMPLEX_VAL, dtypes.FLOAT8_VAL),
}


_OUTPUTS, _MODEL_SPEC = 1, 2
_KEY, _VALUE = 1, 2


def entries(field: int, tensors: Mapping[str, Fragments]) -> Fragments:
    """Return the entries of a message's map from names to tensors."""
    parts: Fragments = []
    for name, tensor in tensors.items():
        parts += wrapped(field, [delimited(_KEY, name.encode()), *wrapped(_VALUE, tensor)])
    return parts


def serialize(outputs: Mapping[str, Array], model_spec: bytes, as_content: bool = False) -> bytes:
    """Return the serialized response; ``model_spec`` is a serialized ModelSpec."""
    tensors = {name: encode(array, as_content) for name, array in outputs.items()}
    return b"".join([*entries(_OUTPUTS, tensors), delimited(_MODEL_SPEC, model_spec)])
