"""Reads an ONNX file's inputs and outputs from the file alone: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import unpack
from typing import NamedTuple, cast

from lightbox.model_runtime.formats.looks import Looks, looks_at
from lightbox.model_runtime.formats.signature import FileSignature, FileTensor, check_weights
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, VARINT, read_fields, read_varint

_GRAPH, _NOTE = 7, 14
_NODE, _TAKES, _GIVES, _OPERATION, _ATTRIBUTE, _ATTRIBUTE_NAME, _INTEGER, _INTEGERS, _TEXTS = 1, 1, 2, 4, 5, 1, 3, 8, 9
_ATTRIBUTE_TENSOR, _DATA_TYPE, _FLOATS, _RAW = 5, 2, 4, 9
_MAPS, _NUMBERS_OF_CLASSES, _NAMES_OF_CLASSES = "ZipMap", "classlabels_int64s", "classlabels_strings"
"""The operation by which converters of scikit-learn end a classifier: it makes a map of each row of scores."""
_LARGEST_NODE = 1 << 16
"""Larger nodes hold weights."""
_LARGEST_CONSTANT = 1 << 10
"""Most bytes of a constant that is read: one with values for channels is shorter."""
_FIRST_NODES = 200
CONSTANT = "Constant"
_INITIALIZER, _INPUT, _OUTPUT = 5, 11, 12
_INITIALIZER_NAME, _OUTSIDE, _KEY, _VALUE = 8, 13, 1, 2
_MODEL, _OF_GRAPH, _OF_NODE, _OF_ATTRIBUTE, _SPARSE, _TENSOR = "model", "graph", "node", "attribute", "sparse", "tensor"
_HOLDS = {
    _MODEL: {7: _OF_GRAPH, 25: "function"},
    "function": {7: _OF_NODE},
    _OF_GRAPH: {1: _OF_NODE, 5: _TENSOR, 15: _SPARSE},
    _OF_NODE: {5: _OF_ATTRIBUTE},
    _OF_ATTRIBUTE: {5: _TENSOR, 6: _OF_GRAPH, 10: _TENSOR, 11: _OF_GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
}
"""The fields of messages through which tensors are found."""
_MANY = {_OF_ATTRIBUTE: (7, 8, 9), _TENSOR: (6,)}
"""The fields that may be there a million times: numbers, and texts such as a vocabulary."""
_DEEPEST, _LOCATION = 100, b"location"
_NAME, _TYPE, _TENSOR_TYPE, _SEQUENCE, _MAP = 1, 2, 1, 4, 5
_OTHER_TYPES = {_SEQUENCE: "a sequence", _MAP: "a map", 8: "a sparse tensor", 9: "an optional"}
_ELEMENT, _SHAPE, _DIMENSION, _SIZE, _SYMBOL = 1, 2, 1, 1, 2
_OPEN = 1 << 63
"""From here on a varint is a negative size, which PaddlePaddle writes for an open dimension."""
_DTYPES = {
    **{1: 1, 2: 4, 3: 6, 4: 17, 5: 5, 6: 3, 7: 9, 8: 7, 9: 10},
    **{10: 19, 11: 2, 12: 22, 13: 23, 14: 8, 15: 18},
}
"""TensorFlow's number of a dtype by ONNX's. bfloat16, 16, is none: no engine takes it from numpy or gives it."""


def read_signature(path: Path) -> FileSignature:
    """Return the signature of a file.

    Raises OSError, and ValueError for a damaged file, another format, or incomplete external weights.
    """
    with _opened(path) as model:
        return _signature(model, path.parent)


def weights_outside(path: Path) -> list[str]:
    """Return the files with a graph's weights, by the paths that the graph has, relative to its own.

    Raises OSError, and ValueError for a damaged file.
    """
    with _opened(path) as model:
        tensors = _tensors_in(model, _MODEL)
        return list(dict.fromkeys(place["location"] for place in map(_outside, tensors) if "location" in place))


def _tensors_in(message: memoryview, kind: str, depth: int = 0) -> Iterator[memoryview]:
    """Yield the tensors of a message, also those in the attributes of nodes that name other files."""
    if depth > _DEEPEST:
        raise ValueError("its graphs are nested too deep")
    for number, wire_type, value in _fields(message, kind):
        inner = _HOLDS[kind].get(number) if wire_type == LENGTH_DELIMITED else None
        if inner == _TENSOR:
            yield value
        elif inner == _OF_NODE:
            if _names_a_file(value):
                node = memoryview(bytes(value)) if len(value) < _LARGEST_NODE else value
                yield from _tensors_in(node, inner, depth + 1)
        elif inner:
            yield from _tensors_in(value, inner, depth + 1)


def _fields(message: memoryview | _Stored, kind: str) -> Iterator[tuple[int, int, memoryview]]:
    """Yield the fields of a message, but of those that may be many at most one in a row."""
    rest: object = message
    while rest is not None:
        following, rest = cast(memoryview, rest), None
        for number, wire_type, value in read_fields(following):
            yield number, wire_type, value
            if number in _MANY.get(kind, ()) and isinstance(value, _Stored):
                rest = value.behind(cast(_Stored, following), number << 3 | wire_type)
                break


def _names_a_file(node: memoryview | _Stored) -> bool:
    """Return whether a node may have its values outside; one with a forest of trees has millions of numbers."""
    return node.holds(_LOCATION) if isinstance(node, _Stored) else _LOCATION in bytes(node)


def operations(path: Path) -> Iterator[tuple[str, dict[str, list[int]]]]:
    """Yield the type and the attributes that are integers of each node of a graph, but not of the graphs in its nodes.

    Raises OSError, and ValueError for a damaged file.
    """
    with _opened(path) as model:
        graph = _last(model, _GRAPH)
        for number, kind, node in read_fields(graph or memoryview(b"")):
            if (number, kind) == (_NODE, LENGTH_DELIMITED) and len(node) < _LARGEST_NODE:
                fields = list(read_fields(node))
                kinds = [_text(value) for number, _, value in fields if number == _OPERATION]
                yield "".join(kinds), dict(_integers(value) for number, _, value in fields if number == _ATTRIBUTE)


class Step(NamedTuple):
    """A node of a graph: its operation, the names of what it takes and gives, and its values if it is a small constant
    of float32."""

    operation: str
    takes: tuple[str, ...] = ()
    gives: str = ""
    values: tuple[float, ...] = ()


def steps(path: Path) -> Iterator[Step]:
    """Yield the first nodes of a graph, which are in the order of their work, and the small constants that they take.

    Raises OSError, and ValueError for a damaged file.
    """
    with _opened(path) as model:
        graph, left, taken = _last(model, _GRAPH), _FIRST_NODES, set[str]()
        for number, kind, value in read_fields(graph or memoryview(b"")):
            if kind != LENGTH_DELIMITED or len(value) >= _LARGEST_NODE:
                continue
            if number == _NODE and left:
                yield (step := _step(value))
                left -= 1
                taken.update(step.takes)
            elif number == _INITIALIZER and len(value) <= _LARGEST_CONSTANT:
                name = _text(_last(value, _INITIALIZER_NAME, _TENSOR))
                yield from [Step(CONSTANT, gives=name, values=_values(value))] if name in taken else ()


def _step(node: memoryview) -> Step:
    fields = [(number, value) for number, kind, value in read_fields(node) if kind == LENGTH_DELIMITED]
    operation, takes, gives = (
        [_text(value) for number, value in fields if number == wanted] for wanted in (_OPERATION, _TAKES, _GIVES)
    )
    tensors = (_last(value, _ATTRIBUTE_TENSOR) for number, value in fields if number == _ATTRIBUTE)
    small = (tensor for tensor in tensors if tensor is not None and len(tensor) <= _LARGEST_CONSTANT)
    return Step("".join(operation), tuple(takes), "".join(gives[:1]), next(map(_values, small), ()))


def _values(tensor: memoryview) -> tuple[float, ...]:
    """Return the values of a tensor of float32, none of others."""
    fields = {number: bytes(value) for number, _, value in _fields(tensor, _TENSOR)}
    if fields.get(_DATA_TYPE) != b"\x01":
        return ()
    content = fields.get(_RAW) or fields.get(_FLOATS, b"")
    return unpack(f"<{len(content) // 4}f", content[: len(content) // 4 * 4])


def _integers(attribute: memoryview) -> tuple[str, list[int]]:
    """Return the name and the integers of an attribute. One list of them is packed or not, as the writer likes."""
    name, integers = "", list[int]()
    for number, kind, value in read_fields(attribute):
        if number == _ATTRIBUTE_NAME:
            name = _text(value)
        elif number in (_INTEGER, _INTEGERS) and kind in (VARINT, LENGTH_DELIMITED):
            position, numbers = 0, bytes(value)
            while position < len(numbers):
                item, position = read_varint(numbers, position)
                integers.append(item)
    return name, integers


def _outside(tensor: memoryview) -> dict[str, str]:
    """Return the place of a tensor's values outside its file, empty if they are inside."""
    entries = (
        value for number, kind, value in _fields(tensor, _TENSOR) if (number, kind) == (_OUTSIDE, LENGTH_DELIMITED)
    )
    return dict(map(_entry, entries))


def _entry(entry: memoryview) -> tuple[str, str]:
    return _text(_last(entry, _KEY)), _text(_last(entry, _VALUE))


def _signature(model: memoryview, folder: Path) -> FileSignature:
    graph = _last(model, _GRAPH)
    if graph is None:
        raise ValueError("it holds no graph")
    inputs: dict[str, FileTensor] = {}
    outputs: dict[str, FileTensor] = {}
    constants: set[str] = set()
    for number, wire_type, value in read_fields(graph):
        if wire_type != LENGTH_DELIMITED:
            continue
        if number == _INPUT:
            inputs.update([_tensor(value)])
        elif number == _OUTPUT:
            outputs.update([_maps(value, graph) or _tensor(value)])
        elif number == _INITIALIZER:  # older files list them as inputs, too
            constants.add(_text(_last(value, _INITIALIZER_NAME, _TENSOR)))
    if not outputs:
        raise ValueError("its graph has no output")
    for tensor in _tensors_in(model, _MODEL):
        _check_outside(tensor, folder)
    notes = (value for number, kind, value in read_fields(model) if (number, kind) == (_NOTE, LENGTH_DELIMITED))
    return FileSignature(
        {name: one for name, one in inputs.items() if name not in constants}, outputs, dict(map(_entry, notes))
    )


def _check_outside(tensor: memoryview, folder: Path) -> None:
    """Raise ValueError unless the external file of a tensor's values, if any, is long enough."""
    place = _outside(tensor)
    if "location" not in place:
        return
    name = Path(place["location"])
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"its weights {str(name)[:200]!r} are not in its folder")
    check_weights(folder / name, int(place.get("offset", 0)) + int(place.get("length", 0)))


@contextmanager
def _opened(path: Path) -> Iterator[memoryview]:
    """Yield the bytes of a file. Raises OSError."""
    with looks_at(path) as looks:
        yield cast(memoryview, _Stored(looks, 0, looks.size))


class _Stored:
    """Bytes of a file, read on access."""

    def __init__(self, looks: Looks, start: int, end: int) -> None:
        self._looks, self._start, self._end = looks, start, end

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, at: int | slice) -> int | _Stored:
        if isinstance(at, int):
            return self._looks.byte(self._start + at)
        self._looks.count(1)
        return _Stored(self._looks, self._start + at.start, self._start + at.stop)

    def behind(self, message: _Stored, tag: int) -> _Stored:
        """Return the rest of a message after this value, and after the fields behind it with a tag of one byte."""
        return _Stored(self._looks, self._looks.behind(self._end, message._end, tag), message._end)

    def holds(self, wanted: bytes) -> bool:
        return self._looks.holds(self._start, len(self), wanted)

    def __bytes__(self) -> bytes:
        if len(found := self._looks.bytes(self._start, len(self))) < len(self):
            raise ValueError("it has become shorter")
        return found


def _tensor(described: memoryview) -> tuple[str, FileTensor]:
    name = _text(_last(described, _NAME))
    kind = _last(described, _TYPE) or memoryview(b"")
    tensor = _last(kind, _TENSOR_TYPE)
    if tensor is None:
        number = next((number for number, _, _ in read_fields(kind)), 0)
        raise ValueError(f"{name!r} is {_OTHER_TYPES.get(number, 'of no type')}, expected a tensor")
    element = next((_number(value) for number, _, value in read_fields(tensor) if number == _ELEMENT), 0)
    if element not in _DTYPES:
        raise ValueError(f"{name!r} has the dtype {element} of ONNX, which cannot be served")
    shape = _last(tensor, _SHAPE)
    if shape is None:
        return name, FileTensor(_DTYPES[element], None, name)
    sizes, first = tuple(_sizes(shape)), _first_symbol(shape)
    return name, FileTensor(_DTYPES[element], sizes, name, first if sizes[:1] == (None,) else "")


def _maps(described: memoryview, graph: memoryview) -> tuple[str, FileTensor] | None:
    """Return an output of a map of scores for each row as a tensor with a column for each class; None for others."""
    name, kind = _text(_last(described, _NAME)), _last(described, _TYPE)
    if kind is None or _last(kind, _SEQUENCE) is None:
        return None
    for number, wire_type, node in read_fields(graph):
        if (number, wire_type) != (_NODE, LENGTH_DELIMITED) or len(node) >= _LARGEST_NODE:
            continue
        fields = list(read_fields(node))
        texts = {number: _text(value) for number, _, value in fields if number in (_GIVES, _OPERATION)}
        if (texts.get(_OPERATION), texts.get(_GIVES)) == (_MAPS, name):
            attributes = [value for number, _, value in fields if number == _ATTRIBUTE]
            classes = tuple(one for value in attributes for one in _classes(value))
            return name, FileTensor(_DTYPES[1], (None, len(classes)), name, classes=classes)
    return None


def _classes(attribute: memoryview) -> list[int] | list[str]:
    name, integers = _integers(attribute)
    texts = [_text(value) for number, _, value in read_fields(attribute) if number == _TEXTS]
    return {_NUMBERS_OF_CLASSES: [one - (1 << 64) if one >= _OPEN else one for one in integers]}.get(
        name, texts if name == _NAMES_OF_CLASSES else []
    )


def _first_symbol(shape: memoryview) -> str:
    """Return the name of the first dimension's size, "" if it has none."""
    first = next((dimension for number, _, dimension in read_fields(shape) if number == _DIMENSION), memoryview(b""))
    return _text(_last(first, _SYMBOL))


def _sizes(shape: memoryview) -> Iterator[int | None]:
    for number, _, dimension in read_fields(shape):
        if number == _DIMENSION:
            fields = read_fields(dimension)
            size = next((_number(size) for number, kind, size in fields if (number, kind) == (_SIZE, VARINT)), _OPEN)
            yield size if size < _OPEN else None


def _last(message: memoryview, wanted: int, kind: str = "") -> memoryview | None:
    found = None
    for number, wire_type, value in _fields(message, kind):
        if (number, wire_type) == (wanted, LENGTH_DELIMITED):
            found = value
    return found


def _number(value: memoryview) -> int:
    return read_varint(value, 0)[0]


def _text(value: memoryview | None) -> str:
    return bytes(value or b"").decode()
