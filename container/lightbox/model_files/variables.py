"""Checks in a SavedModel's files that its variables are complete, before anything loads them.

A model server restores variables with the graph's restore operation. Without ``variables/`` it restores nothing and
reports the model as loaded (TensorFlow's ``RunRestore`` in cc/saved_model/loader.cc); then every prediction fails. The
index is a table of sorted strings (core/lib/io/table_builder.cc) with values of tensor_bundle.proto.
docs/adr/091-inconclusive-checks.md explains this check, and why compressed indexes are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from lightbox.model_files.foreign_files import POINTER, is_pointer, is_pointer_file
from lightbox.model_files.tf_graph import Graph, MetaGraph, Node, Shape, base_name, parse, shape_of
from lightbox.model_runtime.access import read_file
from lightbox.model_runtime.deadline import check_deadline, in_time
from lightbox.model_runtime.wire.dtypes import numpy_name
from lightbox.model_runtime.wire.protobuf import read_varint

FOLDER, INDEX = "variables", "variables/variables.index"

_FOOTER_BYTES, _TRAILER_BYTES = 48, 5
_MAGIC = bytes.fromhex("57fb808b247547db")
_NOT_A_VARIABLE = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Keras's description of its objects: stored with the variables, and not needed."""
_MOST_BYTES, _MOST_NAMES, _PER_NAME = 64 << 20, 64 << 20, 100
"""Most bytes of the index, and of its names with some for each: a name may repeat another one with three bytes."""
_MOST_STEPS, _MOST_VARIABLES, _LONGEST_PLACE = 10, 1_000_000, 10
_SHOWN = 3
_Wanted: TypeAlias = tuple[int, Shape]
"""A dtype's number, and a shape if the graph declares it."""
_Entry: TypeAlias = Any
"""A tensor of the checkpoint, a ``BundleEntryProto``: dtype, shape, and place in one of the data files."""


class _Compressed(ValueError):
    """A block of the index is compressed."""


def variables_problem(folder: Path, meta_graph: MetaGraph) -> str | None:
    """Return the problem of the variables of a SavedModel in ``folder``, None if none is found.

    Raises OSError for unreadable files.
    """
    expected = _restored(meta_graph)
    if not expected:
        return None
    index = folder / INDEX
    if not index.exists():
        return f"{index} is missing: the graph restores {len(expected)} variables from it, {_some(expected)}"
    content = read_file(index, _MOST_BYTES)
    if is_pointer(content):
        return f"{index} {POINTER}"
    try:
        shards, entries = _read_index(content)
    except _Compressed:
        return None
    except ValueError as error:
        return f"{index} is damaged or incomplete: {error}"
    return _mismatch(index, entries, expected) or _truncated(folder, shards, entries)


def _mismatch(index: Path, entries: Mapping[str, _Entry], wanted: Mapping[str, _Wanted]) -> str | None:
    if absent := [name for name in wanted if name not in entries]:
        return f"{index} lacks {len(absent)} of the {len(wanted)} variables that the graph restores, {_some(absent)}"
    for name, (dtype, shape) in wanted.items():
        entry = entries[name]
        if dtype and entry.dtype != dtype:
            return f"{index}: {name} is {numpy_name(entry.dtype)}, the graph restores {numpy_name(dtype)}"
        sizes = [dim.size for dim in entry.shape.dim]
        if shape is not None and not _fits(sizes, shape):
            return f"{index}: {name} has the shape {sizes}, the graph's is {_written(shape)}"
    return None


def _truncated(folder: Path, shards: int, entries: Mapping[str, _Entry]) -> str | None:
    ends: dict[int, int] = {}
    for entry in entries.values():
        ends[entry.shard_id] = max(ends.get(entry.shard_id, 0), entry.offset + entry.size)
    for shard in range(shards):
        path = folder / FOLDER / f"variables.data-{shard:05}-of-{shards:05}"
        expected = ends.get(shard, 0)
        if not path.exists():
            return f"{path} is missing: expected {expected} bytes"
        if (size := path.stat().st_size) < expected:
            if is_pointer_file(path):
                return f"{path} {POINTER}"
            return f"{path} is cut short: expected {expected} bytes, got {size}"
    return None


def _some(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")


def _written(shape: Iterable[int | None]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _fits(found: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(found) == len(wanted) and all(size in (None, got) for got, size in zip(found, wanted, strict=True))


# What the graph restores


def _restored(meta_graph: MetaGraph) -> dict[str, _Wanted]:
    """Return dtype and shape, None if undeclared, of each variable that the graph restores."""
    graph = Graph(meta_graph)
    operation = base_name(meta_graph.saver_def.restore_op_name)
    return dict(islice(_restored_by(operation, graph), _MOST_VARIABLES)) if operation in graph.nodes else {}


def _restored_by(operation: str, graph: Graph) -> Iterator[tuple[str, _Wanted]]:
    nodes = graph.nodes
    function = graph.called_by(nodes[operation])
    if function is None:
        inside, handles = _needed_by(operation, nodes), dict[str, Node]()
    else:
        inside, given = function.nodes, map(base_name, nodes[operation].input)
        handles = {
            argument: nodes[name] for argument, name in zip(function.arguments, given, strict=False) if name in nodes
        }
    shapes = {(restore, place): shape for restore, place, shape in _assigned(inside, handles)}
    for restore in in_time([node for node in inside.values() if node.op == "RestoreV2"]):
        names = _strings(inside.get(base_name(restore.input[1])) if len(restore.input) > 1 else None)
        dtypes = restore.attr["dtypes"].list.type
        is_complete = len(names) == len(dtypes)
        for place, name in enumerate(names):
            if name != _NOT_A_VARIABLE:
                shape = shapes.get((restore.name, place)) if is_complete else None
                yield name, (dtypes[place] if place < len(dtypes) else 0, shape)


def _needed_by(operation: str, nodes: dict[str, Node]) -> dict[str, Node]:
    """Return the nodes that an operation depends on."""
    result: dict[str, Node] = {}
    remaining = [operation]
    while remaining:
        name = remaining.pop()
        if name in nodes and name not in result:
            result[name] = nodes[name]
            remaining += map(base_name, nodes[name].input)
    return result


def _assigned(inside: dict[str, Node], handles: dict[str, Node]) -> Iterator[tuple[str, int, Shape]]:
    """Yield the node and index of each restored tensor that is assigned to a variable, and the variable's shape."""
    for node in in_time(inside.values()):
        if node.op != "AssignVariableOp" or len(node.input) < 2:
            continue
        handle, source = handles.get(base_name(node.input[0])), node.input[1]
        for _ in range(_MOST_STEPS):
            value = inside.get(base_name(source))
            if value is None or value.op != "Identity" or not value.input:
                break
            source = value.input[0]
        parts = source.split(":")
        if handle is not None and "shape" in handle.attr and parts[-1].isdecimal() and len(parts[-1]) < _LONGEST_PLACE:
            yield parts[0], int(parts[-1]), shape_of(handle.attr["shape"].shape)


def _strings(constant: Node | None) -> list[str]:
    """Return the elements of a constant of strings; none for another node."""
    if constant is None or constant.op != "Const":
        return []
    return [text.decode(errors="replace") for text in constant.attr["value"].tensor.string_val]


# What the checkpoint holds


def _read_index(data: bytes) -> tuple[int, dict[str, _Entry]]:
    """Return the number of data files, and the tensors by name.

    Raises ValueError for a damaged index, _Compressed for a compressed one.
    """
    if len(data) < _FOOTER_BYTES or data[-8:] != _MAGIC:
        raise ValueError("it does not end with an index's footer")
    footer, position = data[-_FOOTER_BYTES:], 0
    for _ in range(2):  # the table of other tables is not needed
        _, position = read_varint(footer, position)
    values: dict[bytes, bytes] = {}
    left = _MOST_NAMES
    for _, handle in _table(data, footer[position:]):
        for key, value in _table(data, handle):
            left -= _PER_NAME + len(key)
            if left < 0:
                raise ValueError("its names are longer than those of any model")
            values[key] = value
    shards = parse("BundleHeaderProto", values.pop(b"", b"")).num_shards
    entries = {key.decode(errors="replace"): parse("BundleEntryProto", value) for key, value in values.items()}
    return max(shards, 1), entries


def _table(data: bytes, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of the block at a handle. Each key shares a prefix with the one before."""
    offset, position = read_varint(handle, 0)
    size, _ = read_varint(handle, position)
    if offset + size + _TRAILER_BYTES > len(data):
        raise ValueError("an offset is beyond its end")
    if data[offset + size]:
        raise _Compressed
    block = data[offset : offset + size]
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    position, key = 0, b""
    check_deadline()
    while position < end:
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        value = position + own
        key, position = key[:shared] + block[position:value], value + length
        yield key, block[value:position]
