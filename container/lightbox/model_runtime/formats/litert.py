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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lightbox.model_runtime.formats.looks import Looks, looks_at
from lightbox.model_runtime.formats.signature import LITERT as NOTES
from lightbox.model_runtime.formats.signature import SIGNATURE, FileSignature, FileTensor

if TYPE_CHECKING:
    from lightbox.model_runtime.wire.messages import meta_graph_pb2

_IDENTIFIER = b"TFL3"
_SUBGRAPHS, _BUFFERS, _METADATA, _SIGNATURES, _FILES = 2, 4, 6, 7, 8
_TENSORS, _INPUTS, _OUTPUTS = 0, 1, 2
_SHAPE, _TYPE, _NAME, _QUANTIZATION, _OPEN_SHAPE = 0, 1, 3, 4, 7
_SCALES, _ZERO_POINTS = 2, 3
_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS, _SIGNATURE_KEY, _SIGNATURE_SUBGRAPH = 0, 1, 2, 4
_MAP_NAME, _MAP_TENSOR = 0, 1
_DATA, _OFFSET, _SIZE = 0, 1, 2
_FLEX_STRING, _FLEX_MAP = 5, 9
_METADATA_NAME, _METADATA_BUFFER, _OLD_SIGNATURES = 0, 1, "signature_defs_metadata"
_NOTES, _MOST_NOTES, _ZIP_END = "metadata.json", 1 << 20, 22
_DESCRIPTION, _NAMED, _BUFFER = "TFLITE_METADATA", 0, 1
_GRAPHS, _OF_INPUTS, _OF_OUTPUTS = 3, 2, 3
_UNITS, _ASSOCIATED, _KIND, _VALUE, _NORMALIZATION, _MEAN, _STD = 4, 6, 0, 1, 1, 0, 1
_FILE_NAME, _FILE_KIND, _LABELS_OF_AXIS = 0, 2, 2
MEAN, STD, LABELS, QUANTIZED = (f"{NOTES}{name}" for name in ("mean", "std", "labels.", "quantized."))
"""Notes from the file's TFLite Metadata: numbers of the input, and lines of labels by the name of an output; and the
scale and the zero point of its integers.

https://github.com/tensorflow/tflite-support/blob/master/tensorflow_lite_support/metadata/metadata_schema.fbs
"""
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
            found = _signature(model)
            names = {tensor.name: name for name, tensor in found.outputs.items()}
            return found._replace(notes={**_described(file, model, names), **_notes(file)})
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"it is not whole: {error}") from None


def _notes(file: Looks) -> dict[str, str]:
    """Return the values of the JSON that Ultralytics appends to the file in a zip archive, in Python's form."""
    try:
        found = json.loads(_appended(file, _NOTES))
    except ValueError:
        return {}
    notes = found if isinstance(found, dict) else {}
    return {str(key): value if isinstance(value, str) else repr(value) for key, value in notes.items()}


def _appended(file: Looks, name: str) -> bytes:
    """Return a file of the zip archive that is appended to a file, nothing if there is none."""
    if file.bytes(max(0, file.size - _ZIP_END), 4) != b"PK\5\6":
        return b""
    tail = file.bytes(start := max(0, file.size - _MOST_NOTES), file.size - start)
    try:
        with zipfile.ZipFile(io.BytesIO(tail)) as archive:
            if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                return b""
            with archive.open(name) as found:
                return found.read(_MOST_NOTES)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, zlib.error):
        return b""


def _described(file: Looks, model: _Table, names: Mapping[str, str]) -> dict[str, str]:
    """Return what the file's TFLite Metadata say of its one input, and of its outputs; nothing of several inputs.

    ``names`` are those of outputs in the signature, by their tensors' own.
    """
    numbers = [one.number("I", _BUFFER) for one in model.tables(_METADATA) if one.text(_NAMED) == _DESCRIPTION]
    buffers = list(model.tables(_BUFFERS))
    if not numbers or not buffers[numbers[0]].items(_DATA, size=1):
        return {}
    start = buffers[numbers[0]].items(_DATA, size=1).start
    graph = next(_Table(file, start + _number("I", file, start)).tables(_GRAPHS), None)
    if graph is None or len(inputs := list(graph.tables(_OF_INPUTS))) != 1:
        return {}
    notes = dict[str, str]()
    for unit in inputs[0].tables(_UNITS):
        if unit.number("B", _KIND) == _NORMALIZATION and (options := unit.table(_VALUE)):
            for key, field in ((MEAN, _MEAN), (STD, _STD)):
                notes[key] = " ".join(f"{number:.9g}" for number in options.floats(field))
    own = next(model.tables(_SUBGRAPHS))
    tensors = list(own.tables(_TENSORS))
    given = (tensors[index].text(_NAME) for index in own.numbers(_OUTPUTS))
    for index in own.numbers(_OUTPUTS):
        quantization, name = tensors[index].table(_QUANTIZATION), tensors[index].text(_NAME)
        scales = list(quantization.floats(_SCALES)) if quantization else []
        if quantization and len(scales) == 1 and name in names:  # others have one for each channel
            zero = next(quantization.numbers(_ZERO_POINTS, 8), 0)
            notes[f"{QUANTIZED}{names[name]}"] = f"{scales[0]:.9g} {zero}"
    for name, output in zip(given, graph.tables(_OF_OUTPUTS), strict=False):
        kinds = {one.number("b", _FILE_KIND): one.text(_FILE_NAME) for one in output.tables(_ASSOCIATED)}
        if _LABELS_OF_AXIS in kinds and name in names:
            notes[f"{LABELS}{names[name]}"] = _appended(file, kinds[_LABELS_OF_AXIS]).decode("utf-8", "replace")
    return notes


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

    def numbers(self, field: int, size: int = 4) -> Iterator[int]:
        """Yield the numbers of a field that is a vector of them, of 4 or 8 bytes each."""
        return (_number("i" if size == 4 else "q", self._file, at) for at in self.items(field, size))

    def floats(self, field: int) -> Iterator[float]:
        """Yield the numbers of a field that is a vector of floating-point ones of 32 bits."""
        return (struct.unpack("<f", _read(self._file, at, 4))[0] for at in self.items(field))

    def table(self, field: int) -> _Table | None:
        """Return a field that is a table, None if it is omitted."""
        at = self._place(field)
        return _Table(self._file, self._follow_offset(at)) if at else None

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
