"""The protocol's tensors: datatypes, shapes, and their encoding in bodies."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from lightbox.base.error_texts import echo, shown
from lightbox.base.errors import InputMismatch, MalformedBody
from lightbox.core.request import ByteStrings
from lightbox.model.casting import cast, numbers, numpy_dtype, read_as
from lightbox.model.spec import Array, ImageInput, TensorSpec
from lightbox.model_runtime.wire.dtypes import PLAIN, PROTOCOL_NAMES
from lightbox.model_runtime.wire.rest.number_lists import NumberList

JSON_LENGTH = "Inference-Header-Content-Length"
"""The header with the length of the JSON, after which the tensors begin."""
TRITON_TYPE = "application/vnd.sagemaker-triton.binary+json"
"""The media type of the protocol's bodies on SageMaker's own route: JSON followed by tensors."""
BYTES = "BYTES"
NO_FORMAT = "FORMAT_NONE"
_DTYPES = {name: numpy for numpy, name in PROTOCOL_NAMES.items() if numpy in PLAIN}
MAX_DIMENSIONS = 32
_MOST_VALUES = 1 << 48
_LENGTH = struct.Struct("<I")


def bad_input(name: str, text: str) -> InputMismatch:
    """Return the error about an input, with the caller's name for it shortened."""
    return InputMismatch(f"input {echo(name)}: {text}")


def numeric_spec(name: str, datatype: str) -> TensorSpec:
    """Return an input of numbers of any shape; raise InputMismatch for an unknown datatype."""
    if datatype not in _DTYPES:
        raise bad_input(
            name, f"expected one of the datatypes {', '.join(sorted(_DTYPES))}, {BYTES}; got {datatype[:40]!r}"
        )
    return TensorSpec(echo(name), _DTYPES[datatype], None)


def datatype_of(array: Array) -> str:
    """Return an output's datatype, or numpy's name if the protocol has none."""
    return _datatype(array.dtype)


@lru_cache(maxsize=64)
def _datatype(dtype: np.dtype[np.generic]) -> str:
    return BYTES if dtype.kind in "OSU" else PROTOCOL_NAMES.get(dtype.name, dtype.name.upper())


def described(spec: TensorSpec) -> dict[str, Any]:
    """Return an input's or output's metadata; unknown dimensions, and an unknown rank, are -1."""
    shape = (None,) if spec.shape is None else spec.shape
    datatype = PROTOCOL_NAMES.get(spec.dtype, spec.dtype.upper())
    return {"name": spec.name, "datatype": datatype, "shape": [-1 if size is None else size for size in shape]}


def image_format(image: ImageInput | None) -> str:
    """Return Triton's name of the layout of an image's pixels."""
    if image is None or image.encoded or not image.batched:
        return NO_FORMAT
    return "FORMAT_NCHW" if image.channels_first else "FORMAT_NHWC"


def configured(spec: TensorSpec, is_batched: bool) -> dict[str, Any]:
    """Return an input or output in the form of Triton's model configuration; its dims are those behind the batch's."""
    tensor = described(spec)
    kind = tensor["datatype"]
    known = {BYTES: "TYPE_STRING", **{name: f"TYPE_{name}" for name in (*_DTYPES, "BF16")}}
    return {"name": tensor["name"], "data_type": known.get(kind, "TYPE_INVALID"), "dims": tensor["shape"][is_batched:]}


def checked_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return a tensor's shape; raise InputMismatch for an invalid one."""
    sizes: Sequence[Any] = shape if isinstance(shape, list | tuple) else [None]
    if len(sizes) > MAX_DIMENSIONS or any(type(size) is not int or size < 0 for size in sizes):
        raise bad_input(name, f"expected a shape such as [1,224,224,3], got {shown(shape, 80)}")
    if math.prod(size or 1 for size in sizes) > _MOST_VALUES:  # numpy refuses large sizes even beside a 0
        raise bad_input(name, f"expected a shape of at most {_MOST_VALUES} values, got {shown(shape, 80)}")
    return tuple(sizes)


def from_buffer(name: str, datatype: str, shape: tuple[int, ...], data: bytes | memoryview) -> Array:
    """Return the numbers of a blob, little-endian and row-major; raise InputMismatch for another size."""
    dtype = numpy_dtype(numeric_spec(name, datatype))
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise bad_input(name, f"{datatype} of shape {list(shape)} is {wanted} bytes, got {len(data)} bytes")
    if datatype == "BOOL" and len(data) and max(data) > 1:
        raise bad_input(name, "expected 0 or 1 for each BOOL")
    return np.frombuffer(data, dtype.newbyteorder("<")).reshape(shape).astype(dtype, copy=False)


def to_blob(array: Array) -> bytes:
    """Return the blob of an output: numbers little-endian and row-major, byte strings each after its length."""
    if datatype_of(array) == BYTES:
        return b"".join(_LENGTH.pack(len(element)) + element for element in array.ravel().tolist())
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def parse_sizes(name: str, text: str) -> list[int]:
    """Return the sizes in a ``binary_data_size`` of text; raise MalformedBody for an invalid one."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        raise MalformedBody(
            f"input {echo(name)}: binary_data_size: expected sizes such as '9821,12302', got {text[:80]!r}"
        )
    return [int(part) for part in parts]


def split_bare(name: str, data: memoryview, sizes: Sequence[int], count: int) -> list[bytes]:
    """Return the elements of a blob with explicit sizes.

    A single size may also mean a blob of prefixed elements: it does when exactly ``count`` of them fit.
    """
    if len(sizes) == 1:
        found = split_prefixed(data, count)
        if found is not None:
            return found
    if len(sizes) != count:
        raise bad_input(name, f"its shape holds {count} elements, but binary_data_size names {len(sizes)}")
    elements, at = [], 0
    for size in sizes:
        elements.append(bytes(data[at : at + size]))
        at += size
    return elements


def split(name: str, data: memoryview, count: int) -> list[bytes]:
    """Return the elements of a blob: prefixed ones, or a single bare one. Raises InputMismatch."""
    found = split_prefixed(data, count)
    if found is not None:
        return found
    if count == 1:
        return [bytes(data)]
    raise bad_input(
        name, f"expected {count} elements, each after its length in 4 bytes; the {len(data)} bytes do not match"
    )


def split_prefixed(data: memoryview, count: int) -> list[bytes] | None:
    """Return exactly ``count`` elements that fill the blob, or None if it has another form."""
    elements: list[bytes] = []
    at = 0
    while at < len(data) and len(elements) < count:
        if at + _LENGTH.size > len(data):
            return None
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            return None
        elements.append(bytes(data[at + _LENGTH.size : end]))
        at = end
    return elements if at == len(data) and len(elements) == count else None


def read_data(name: str, datatype: str, shape: tuple[int, ...], data: Any) -> Array | ByteStrings:
    """Return the tensor; strings become UTF-8. Raises InputMismatch for values that do not fit the shape."""
    if isinstance(data, NumberList):
        return _long_list(name, datatype, shape, data)
    values, sizes = _flat(name, data, len(shape))
    if len(values) != math.prod(shape) or (len(sizes) > 1 and tuple(sizes) != shape):
        raise bad_input(
            name, f"shape {list(shape)} holds {math.prod(shape)} values, got {len(values)} of shape {sizes}"
        )
    if datatype == BYTES:
        return ByteStrings([_encoded(name, value) for value in values], shape)
    return numbers(values, numeric_spec(name, datatype)).reshape(shape)


def _long_list(name: str, datatype: str, shape: tuple[int, ...], data: NumberList) -> Array:
    """Return the same as ``read_data`` for a long list; raise InputMismatch if it must be read as values."""
    spec = numeric_spec(name, datatype)
    found = data.array(read_as(spec))
    if found is None or found.size != math.prod(shape) or (found.ndim > 1 and found.shape != shape):
        raise bad_input(name, f"data: expected {datatype} of shape {list(shape)}")
    return cast(found, spec).reshape(shape)


def _flat(name: str, data: Any, rank: int) -> tuple[list[Any], list[int]]:
    """Return the values, row-major, and the sizes of their nested lists."""
    if not isinstance(data, list):
        raise bad_input(name, f"data: expected a list, got {type(data).__name__}")
    values, sizes = data, [len(data)]
    while values and isinstance(values[0], list):
        lengths = {len(value) if isinstance(value, list) else -1 for value in values}
        if len(lengths) != 1 or -1 in lengths or len(sizes) >= max(rank, 1):
            raise bad_input(name, "data: expected lists nested as the shape says, or one flat list")
        sizes.append(lengths.pop())
        values = list(chain.from_iterable(values))
    return values, sizes


def _encoded(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise bad_input(name, f"expected a string for each of BYTES, got {type(value).__name__}")
    return value.encode()
