"""Whether the variables of a SavedModel are all there, told from its files before anything loads them.

A model server restores variables by the graph's restore operation. Where ``variables/`` is missing it restores nothing
and says that the model is loaded (TensorFlow's ``RunRestore`` in cc/saved_model/loader.cc); every prediction fails
then. The index is a table of sorted strings (core/lib/io/table_builder.cc); its values are tensor_bundle.proto's.
TensorFlow also reads a table of compressed blocks, as Google's builds write it. It is not judged here: the model server
restores from it, or says why it cannot (docs/adr/091-what-cannot-be-judged.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lightbox.model.formats import POINTER, is_pointer, points
from lightbox.model.graph import Graph, Node, base_name, fields, read_graph
from tfs_wire.dtypes import numpy_name
from tfs_wire.protobuf import read_varint

FOLDER, INDEX = "variables", "variables/variables.index"

_FOOTER_BYTES, _TRAILER_BYTES = 48, 5
_MAGIC = bytes.fromhex("57fb808b247547db")
_NOT_A_VARIABLE = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Describes Keras's objects: restored with the variables, needed by none of them."""
_SHOWN = 3
_Shape = tuple[int | None, ...]
_Wanted = tuple[int, _Shape | None]
"""A dtype's number, and a shape where the graph tells it."""


class _Compressed(ValueError):
    """A block of the index is compressed."""


@dataclass(frozen=True)
class _Entry:
    """A tensor of the checkpoint: a TensorFlow dtype's number, its shape, and its place in one of the data files."""

    dtype: int = 0
    shape: _Shape = ()
    shard: int = 0
    end: int = 0


def variables_problem(folder: Path, meta_graph: memoryview) -> str | None:
    """Return what is wrong with the variables of a SavedModel in ``folder``, None where nothing can be found.

    ``meta_graph`` is the serialized MetaGraphDef. Raises ValueError when it is damaged, OSError as reading does.
    """
    wanted = _restored(meta_graph)
    if not wanted:
        return None
    index = folder / INDEX
    if not index.exists():
        return f"{index} is missing: the graph restores {len(wanted)} variables from it, {_some(wanted)}"
    content = index.read_bytes()
    if is_pointer(content):
        return f"{index} {POINTER}"
    try:
        shards, entries = _read_index(content)
    except _Compressed:
        return None
    except ValueError as error:
        return f"{index} is damaged or incomplete: {error}"
    return _mismatch(index, entries, wanted) or _truncated(folder, shards, entries)


def _mismatch(index: Path, entries: Mapping[str, _Entry], wanted: Mapping[str, _Wanted]) -> str | None:
    if absent := [name for name in wanted if name not in entries]:
        return f"{index} lacks {len(absent)} of the {len(wanted)} variables that the graph restores, {_some(absent)}"
    for name, (dtype, shape) in wanted.items():
        entry = entries[name]
        if dtype and entry.dtype != dtype:
            return f"{index}: {name} is {numpy_name(entry.dtype)}, the graph restores {numpy_name(dtype)}"
        if shape is not None and not _fits(entry.shape, shape):
            return f"{index}: {name} has the shape {list(entry.shape)}, the graph's is {_written(shape)}"
    return None


def _truncated(folder: Path, shards: int, entries: Mapping[str, _Entry]) -> str | None:
    for shard in range(shards):
        path = folder / FOLDER / f"variables.data-{shard:05}-of-{shards:05}"
        expected = max((entry.end for entry in entries.values() if entry.shard == shard), default=0)
        if not path.exists():
            return f"{path} is missing: expected {expected} bytes"
        if (size := path.stat().st_size) < expected:
            if points(path):
                return f"{path} {POINTER}"
            return f"{path} is cut short: expected {expected} bytes, got {size}"
    return None


def _some(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")


def _written(shape: _Shape) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _fits(found: _Shape, wanted: _Shape) -> bool:
    return len(found) == len(wanted) and all(size in (None, got) for got, size in zip(found, wanted, strict=True))


# What the graph restores


def _restored(meta_graph: memoryview) -> dict[str, _Wanted]:
    """Return dtype and shape, None where the graph does not tell it, of each variable that the graph restores."""
    graph = read_graph(meta_graph)
    saver = next((value for number, value in fields(meta_graph) if number == 3), memoryview(b""))
    operation = base_name(next((str(value, "utf-8") for number, value in fields(saver) if number == 3), ""))
    return dict(_restored_by(operation, graph)) if operation in graph.nodes else {}


def _restored_by(operation: str, graph: Graph) -> Iterator[tuple[str, _Wanted]]:
    nodes = graph.nodes
    node = nodes[operation]
    function = graph.called_by(node)
    if function is None:
        inside, handles = _needed_by(operation, nodes), dict[str, Node]()
    else:
        inside = function.nodes
        handles = {
            argument: nodes[name]
            for argument, name in zip(function.arguments, node.inputs, strict=False)
            if name in nodes
        }
    for restore in [node for node in inside.values() if node.op == "RestoreV2"]:
        names = _strings(inside.get(restore.inputs[1]) if len(restore.inputs) > 1 else None)
        dtypes = _dtypes(restore.attributes.get("dtypes"))
        shapes = dict(_assigned(inside, restore.name, handles)) if len(names) == len(dtypes) else {}
        for place, name in enumerate(names):
            if name != _NOT_A_VARIABLE:
                yield name, (dtypes[place] if place < len(dtypes) else 0, shapes.get(place))


def _needed_by(operation: str, nodes: dict[str, Node]) -> dict[str, Node]:
    """Return the nodes that an operation cannot run without."""
    found: dict[str, Node] = {}
    left = [operation]
    while left:
        name = left.pop()
        if name in nodes and name not in found:
            found[name] = nodes[name]
            left += nodes[name].inputs
    return found


def _assigned(inside: dict[str, Node], restore: str, handles: dict[str, Node]) -> Iterator[tuple[int, _Shape]]:
    """Yield the place of each restored tensor that a variable of a known shape is given, and that shape."""
    for node in inside.values():
        if node.op != "AssignVariableOp" or len(node.inputs) < 2:
            continue
        handle, source = handles.get(node.inputs[0]), node.attributes.get("input_1", memoryview(b""))
        while (value := inside.get(base_name(str(source, "utf-8")))) is not None and value.op == "Identity":
            source = value.attributes.get("input_0", memoryview(b""))
        parts = str(source, "utf-8").split(":")
        if handle is None or parts[0] != restore or not parts[-1].isdigit():
            continue
        shape = _shape_of(handle.attributes.get("shape"))
        if shape is not None:
            yield int(parts[-1]), shape


def _strings(constant: Node | None) -> list[str]:
    """Return the elements of a constant of strings; none of what is no constant."""
    value = constant.attributes.get("value") if constant and constant.op == "Const" else None
    tensors = (tensor for number, tensor in fields(value or memoryview(b"")) if number == 8)
    return [str(text, "utf-8") for tensor in tensors for number, text in fields(tensor) if number == 8]


def _dtypes(attribute: memoryview | None) -> list[int]:
    numbers: list[int] = []
    for listed in (value for number, value in fields(attribute or memoryview(b"")) if number == 1):
        for data in (value for number, value in fields(listed) if number == 6):
            position = 0
            while position < len(data):
                number, position = read_varint(data, position)
                numbers.append(number)
    return numbers


def _shape_of(attribute: memoryview | None) -> _Shape | None:
    shape = next((value for number, value in fields(attribute or memoryview(b"")) if number == 7), None)
    if shape is None or any(number == 3 and read_varint(value, 0)[0] for number, value in fields(shape)):
        return None
    sizes = [
        next((read_varint(part, 0)[0] for n, part in fields(value) if n == 1), 0)
        for number, value in fields(shape)
        if number == 2
    ]
    return tuple(size if size < 1 << 63 else None for size in sizes)


# What the checkpoint holds


def _read_index(data: bytes) -> tuple[int, dict[str, _Entry]]:
    """Return the number of data files, and the tensors by name.

    Raises ValueError where the index is damaged, _Compressed where it is compressed.
    """
    if len(data) < _FOOTER_BYTES or data[-8:] != _MAGIC:
        raise ValueError("it does not end with an index's footer")
    view = memoryview(data)
    footer = view[-_FOOTER_BYTES:]
    position = 0
    for _ in range(2):  # where the table of other tables is, which nobody needs
        _, position = read_varint(footer, position)
    shards, entries = 1, dict[str, _Entry]()
    for _, handle in _table(view, footer[position:]):
        for key, value in _table(view, memoryview(handle)):
            if key:
                entries[key.decode(errors="replace")] = _entry(memoryview(value))
            else:
                shards = next((read_varint(v, 0)[0] for number, v in fields(memoryview(value)) if number == 1), 1)
    return shards, entries


def _table(data: memoryview, handle: memoryview) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of the block that a handle points to. Each key has the start of the one before."""
    offset, position = read_varint(handle, 0)
    size, _ = read_varint(handle, position)
    if offset + size + _TRAILER_BYTES > len(data):
        raise ValueError("an offset is beyond its end")
    if data[offset + size]:
        raise _Compressed
    block = data[offset : offset + size]
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    position, key = 0, b""
    while position < end:
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        key = key[:shared] + bytes(block[position : position + own])
        position += own
        yield key, bytes(block[position : position + length])
        position += length


def _entry(message: memoryview) -> _Entry:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    shape: _Shape = ()
    for number, value in fields(message):
        if number in numbers:
            numbers[number] = read_varint(value, 0)[0]
        elif number == 2:
            shape = tuple(
                next((read_varint(part, 0)[0] for n, part in fields(size) if n == 1), 0)
                for field_number, size in fields(value)
                if field_number == 2
            )
    return _Entry(numbers[1], shape, numbers[3], numbers[4] + numbers[5])
