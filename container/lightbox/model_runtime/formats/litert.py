"""Reads a LiteRT file's inputs and outputs from its tables alone.

https://github.com/google-ai-edge/LiteRT/blob/main/tflite/converter/schema/schema.fbs: the numbers below are those of
fields in their tables. https://flatbuffers.dev/internals is how tables are stored.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lightbox.model_runtime.formats.looks import Looks, looks_at
from lightbox.model_runtime.formats.signature import SIGNATURE, FileSignature, FileTensor

if TYPE_CHECKING:
    from lightbox.model_runtime.wire.messages import meta_graph_pb2

_IDENTIFIER = b"TFL3"
_SUBGRAPHS, _BUFFERS, _METADATA, _SIGNATURES, _FILES = 2, 4, 6, 7, 8
_TENSORS, _INPUTS, _OUTPUTS = 0, 1, 2
_SHAPE, _TYPE, _NAME, _OPEN_SHAPE = 0, 1, 3, 7
_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS, _SIGNATURE_KEY, _SIGNATURE_SUBGRAPH = 0, 1, 2, 4
_MAP_NAME, _MAP_TENSOR = 0, 1
_DATA, _OFFSET, _SIZE = 0, 1, 2
_FLEX_STRING, _FLEX_MAP = 5, 9
_METADATA_NAME, _METADATA_BUFFER, _OLD_SIGNATURES = 0, 1, "signature_defs_metadata"
_NOTES, _MOST_NOTES, _ZIP_END = "metadata.json", 1 << 20, 22
_DTYPES = (1, 19, 3, 4, 9, 7, 10, 5, 8, 6, 2, 18, 23, None, None, 22, 17)
"""TensorFlow's number of a dtype, at LiteRT's number of it."""


def read_signature(path: Path) -> FileSignature:
    """Return the signature of the first subgraph, with the names of the file's signature if it has one, old or new.

    Raises OSError, and ValueError for a damaged file or another format.
    """
    with looks_at(path) as file:
        if file.bytes(4, len(_IDENTIFIER)) != _IDENTIFIER:
            raise ValueError(f"its bytes 4 to 7 are not {_IDENTIFIER.decode()}")
        try:
            model = _Table(file, _number("I", file, 0))
            if model.items(_FILES):
                raise ValueError("its weights are in other files, which no engine opens")
            need = max((_end(buffer) for buffer in model.tables(_BUFFERS)), default=0)
            if need > file.size:
                raise ValueError(f"it has {file.size:,} bytes, expected {need:,}")
            return _signature(model)._replace(notes=_notes(file))
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"it is not whole: {error}") from None


def _notes(file: Looks) -> dict[str, str]:
    """Return the values of the JSON that Ultralytics appends to the file in a zip archive, in Python's form."""
    if file.bytes(max(0, file.size - _ZIP_END), 4) != b"PK\5\6":
        return {}
    tail = file.bytes(start := max(0, file.size - _MOST_NOTES), file.size - start)
    try:
        with zipfile.ZipFile(io.BytesIO(tail)) as archive:
            if archive.getinfo(_NOTES).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                return {}
            with archive.open(_NOTES) as noted:
                found = json.loads(noted.read(_MOST_NOTES))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, zlib.error):
        return {}
    notes = found if isinstance(found, dict) else {}
    return {str(key): value if isinstance(value, str) else repr(value) for key, value in notes.items()}


def _end(buffer: _Table) -> int:
    """Return where a buffer's bytes end, which are in its table or, in large files, behind all tables."""
    return max(buffer.items(_DATA, size=1).stop, buffer.number("Q", _OFFSET) + buffer.number("Q", _SIZE))


def _signature(model: _Table) -> FileSignature:
    graph = next(model.tables(_SUBGRAPHS), None)
    if graph is None:
        raise ValueError("it holds no subgraph")
    tensors = list(graph.tables(_TENSORS))
    signatures = list(model.tables(_SIGNATURES))
    if any(one.text(_SIGNATURE_KEY) == SIGNATURE and one.number("I", _SIGNATURE_SUBGRAPH) for one in signatures):
        raise ValueError(f"its signature {SIGNATURE} is not of the first subgraph, the one that can be served")
    signature = next((one for one in signatures if not one.number("I", _SIGNATURE_SUBGRAPH)), None)
    old = _old_signature(model) if signature is None else None

    def named(graph_field: int, signature_field: int) -> dict[str, FileTensor]:
        if signature is None:
            found = [_tensor(tensors[index]) for index in graph.numbers(graph_field)]
            by_name = {tensor.name: tensor for tensor in found}
            if old is None:
                return by_name
            names = old.inputs if signature_field == _SIGNATURE_INPUTS else old.outputs
            if missing := {info.name for info in names.values()} - by_name.keys():
                raise ValueError(f"its signature {SIGNATURE} names a tensor {min(missing)!r}, which it does not have")
            return {name: by_name[info.name] for name, info in sorted(names.items())}
        entries = signature.tables(signature_field)
        return {entry.text(_MAP_NAME): _tensor(tensors[entry.number("I", _MAP_TENSOR)]) for entry in entries}

    inputs, outputs = named(_INPUTS, _SIGNATURE_INPUTS), named(_OUTPUTS, _SIGNATURE_OUTPUTS)
    if not outputs:
        raise ValueError("its first subgraph has no output")
    return FileSignature(inputs, outputs)


def _old_signature(model: _Table) -> meta_graph_pb2.SignatureDef | None:
    """Return the signature that TensorFlow's signature_def_util of 2020 keeps as a message in a FlexBuffers map."""
    for entry in model.tables(_METADATA):
        if entry.text(_METADATA_NAME) == _OLD_SIGNATURES:
            buffer = list(model.tables(_BUFFERS))[entry.number("I", _METADATA_BUFFER)]
            message = _string(buffer.data(_DATA), SIGNATURE.encode())
            return None if message is None else _parsed(message)
    return None


def _parsed(message: bytes) -> meta_graph_pb2.SignatureDef:
    from google.protobuf.message import DecodeError

    from lightbox.model_runtime.wire.messages import meta_graph_pb2

    try:
        return meta_graph_pb2.SignatureDef.FromString(message)
    except DecodeError as error:
        raise ValueError(f"its signature {SIGNATURE}: {error}") from None


def _string(data: bytes, key: bytes) -> bytes | None:
    """Return a string in a map of FlexBuffers. It ends with the map's offset, its type and the offset's width.

    https://flatbuffers.dev/internals/#flexbuffers
    """

    def number(at: int, width: int) -> int:
        if at < 0:
            raise IndexError("a place before its first byte")
        return int.from_bytes(data[at : at + width], "little")

    def target(at: int, width: int) -> int:
        return at - number(at, width)

    kind, end = data[-2], data[-1]
    items, width = target(len(data) - 2 - end, end), 1 << (kind & 3)
    keys, of_key = target(items - 3 * width, width), number(items - 2 * width, width)
    count = number(items - width, width) if kind >> 2 == _FLEX_MAP else 0
    for at in range(min(count, len(data))):
        name, kind = target(keys + at * of_key, of_key), data[items + count * width + at]
        if data[name : name + len(key) + 1] == key + b"\0" and kind >> 2 == _FLEX_STRING:
            start, of_size = target(items + at * width, width), 1 << (kind & 3)
            return data[start : start + number(start - of_size, of_size)]
    return None


def _tensor(table: _Table) -> FileTensor:
    name, number = table.text(_NAME), table.number("b", _TYPE)
    dtype = _DTYPES[number] if 0 <= number < len(_DTYPES) else None
    if dtype is None:
        raise ValueError(f"{name!r} has the dtype {number} of LiteRT, which cannot be served")
    sizes = list(table.numbers(_OPEN_SHAPE)) or list(table.numbers(_SHAPE))
    return FileTensor(dtype, tuple(size if size >= 0 else None for size in sizes), name)


class _Table:
    """A table of FlatBuffers. Its readers raise struct.error beyond the end of the file."""

    def __init__(self, file: Looks, at: int) -> None:
        self._file, self._at = file, at

    def number(self, code: str, field: int) -> int:
        """Return a field by its code of ``struct``, 0 if it is omitted."""
        at = self._place(field)
        return _number(code, self._file, at) if at else 0

    def text(self, field: int) -> str:
        """Return a field of text, "" if it is omitted."""
        return self.data(field).decode()

    def data(self, field: int) -> bytes:
        """Return a field that is a vector of bytes, none if it is omitted."""
        at = self._place(field)
        if not at:
            return b""
        start = self._follow_offset(at)
        return _read(self._file, start + 4, _number("I", self._file, start))

    def items(self, field: int, size: int = 4) -> range:
        """Return where the items, of ``size`` bytes each, of a field that is a vector begin."""
        at = self._place(field)
        if not at:
            return range(0)
        start = self._follow_offset(at)
        return range(start + 4, start + 4 + size * _number("I", self._file, start), size)

    def numbers(self, field: int) -> Iterator[int]:
        """Yield the numbers of a field that is a vector of 32-bit ones."""
        return (_number("i", self._file, at) for at in self.items(field))

    def tables(self, field: int) -> Iterator[_Table]:
        """Yield the tables of a field that is a vector of them."""
        return (_Table(self._file, self._follow_offset(at)) for at in self.items(field))

    def _place(self, field: int) -> int:
        """Return the position of a field, 0 if it is omitted."""
        layout = self._at - _number("i", self._file, self._at)
        place = 4 + 2 * field
        offset = _number("H", self._file, layout + place) if place < _number("H", self._file, layout) else 0
        return self._at + offset if offset else 0

    def _follow_offset(self, at: int) -> int:
        return at + _number("I", self._file, at)


def _number(code: str, file: Looks, at: int) -> int:
    found: int = struct.unpack(f"<{code}", _read(file, at, struct.calcsize(f"<{code}")))[0]
    return found


def _read(file: Looks, at: int, count: int) -> bytes:
    if at < 0:
        raise struct.error("a place before its first byte")
    found = file.bytes(at, count)
    if len(found) < count:
        raise struct.error(f"{count:,} bytes at {at:,} are not there")
    return found
