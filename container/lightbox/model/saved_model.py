"""The signatures of a SavedModel, read from its file before anything loads it.

Only the few fields that describe signatures are looked at; the graph is stepped over. The numbers are those of
saved_model.proto, meta_graph.proto and tensor_shape.proto of TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lightbox.core.errors import StartError
from lightbox.model.formats import POINTER, disguise, points
from lightbox.model.graph import empty_is_unknown, operations
from lightbox.model.layout import version_folder
from lightbox.model.rescaling import Rescaling, find_rescaling
from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.model.variables import variables_problem
from tfs_wire.dtypes import numpy_name
from tfs_wire.protobuf import read_fields, read_varint
from tfs_wire.ranks import least_rank

FILE = "saved_model.pb"
SERVE_TAG = "serve"
"""The tag of the graph that model servers load; one with further tags is another graph."""

_META_GRAPHS = 2
_META_INFO, _SIGNATURES, _ASSETS = 1, 5, 6
_ASSET_NAME = 2
_TAGS = 4
_KEY, _VALUE = 1, 2
_INPUTS, _OUTPUTS = 1, 2
_TENSOR, _DTYPE, _SHAPE = 1, 2, 3
_DIMENSION, _UNKNOWN_RANK = 2, 3
_SIZE = 1


class SavedModelError(StartError):
    """A SavedModel cannot be served; the message is a sentence that names its file."""


def read_signatures(folder: Path, model: str, version: int) -> dict[str, SignatureSpec]:
    """Return the signatures of ``folder/saved_model.pb`` that can be asked for, by name.

    Raises SavedModelError when the file cannot be read, when it has no graph to serve, or none of its signatures
    gives an output.
    """
    path = folder / FILE
    try:
        found = dict(_signatures(serving_graph(path), model, version))
    except ValueError as error:
        raise _damaged(path, error) from None
    if not found:
        raise SavedModelError(
            f"{path} has no usable signature: expected one with an output, such as 'serving_default'; "
            "give signatures= to tf.saved_model.save"
        )
    return found


def check_whole(folder: Path) -> None:
    """Raise SavedModelError when a variable or an asset that the graph of a SavedModel needs is not in ``folder``."""
    path = folder / FILE
    try:
        graph = serving_graph(path)
        names = [_asset_name(asset) for number, asset in _fields(graph) if number == _ASSETS]
        problems = filter(None, (_asset_problem(folder / "assets" / name) for name in names))
        problem = next(problems, None) or variables_problem(folder, graph)
    except OSError as error:
        raise SavedModelError(f"{error.filename} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise _damaged(path, error) from None
    if problem:
        raise SavedModelError(f"{problem}; a version is not complete until all its files exist")


def input_rescaling(folder: Path, signature: str, name: str) -> Rescaling:
    """Return what the graph of ``folder/saved_model.pb`` does first to the values of an input.

    Raises SavedModelError where the file cannot be read.
    """
    path = folder / FILE
    try:
        graph = serving_graph(path)
        inputs = dict(_entries(dict(_entries(graph, _SIGNATURES)).get(signature, memoryview(b"")), _INPUTS))
        tensor = dict(_fields(inputs.get(name, memoryview(b"")))).get(_TENSOR, memoryview(b""))
        return find_rescaling(graph, str(tensor, "utf-8"))
    except ValueError as error:
        raise _damaged(path, error) from None


@dataclass(frozen=True)
class Traits:
    """What a graph tells beyond its signatures: which ranks may end its server, and what no shape means.

    An input of at least ``least_rank`` ends no server, whatever the graph does with it; it is 0 where none does.
    """

    least_rank: int
    has_no_scalars: bool


WORST = Traits(least_rank=1, has_no_scalars=False)
"""Of a graph that cannot be read: declared ranks hold, and of inputs without one no more is known."""


def traits(base_path: Path, version: int) -> Traits:
    """Return the traits of a version of a model, WORST where its file cannot be read. A file is read once."""
    try:
        path = version_folder(base_path, version) / FILE
        status = path.stat()
        return _traits(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    except (OSError, SavedModelError, ValueError):
        return WORST


@lru_cache(maxsize=1000)
def _traits(path: Path, *_: int) -> Traits:
    graph = serving_graph(path)
    return Traits(max(map(least_rank, operations(graph)), default=0), empty_is_unknown(graph))


def serving_graph(path: Path) -> memoryview:
    """Return the graph that model servers load. Raises SavedModelError, and ValueError where the file is damaged."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SavedModelError(f"{path} cannot be read: {error.strerror}") from None
    if told := disguise(content):
        raise SavedModelError(f"{path} {told}")
    graphs = [graph for number, graph in _fields(content) if number == _META_GRAPHS]
    serving = next((graph for graph in graphs if _tags(graph) == {SERVE_TAG}), None)
    if serving is None:
        raise SavedModelError(f"{path} has no graph with the one tag {SERVE_TAG!r}: there is nothing to serve in it")
    return serving


def _damaged(path: Path, error: ValueError) -> SavedModelError:
    return SavedModelError(f"{path} is not a SavedModel, or is damaged: {error}")


def _asset_problem(file: Path) -> str | None:
    if not file.exists():
        return f"{file} is missing"
    return f"{file} {POINTER}" if points(file) else None


def _asset_name(asset: memoryview) -> str:
    return next((str(value, "utf-8") for number, value in _fields(asset) if number == _ASSET_NAME), "")


def _fields(data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    return ((number, value) for number, _, value in read_fields(memoryview(data)))


def _tags(graph: memoryview) -> set[str]:
    infos = (value for number, value in _fields(graph) if number == _META_INFO)
    return {str(value, "utf-8") for info in infos for number, value in _fields(info) if number == _TAGS}


def _signatures(graph: memoryview, model: str, version: int) -> Iterator[tuple[str, SignatureSpec]]:
    """Yield what has outputs; names that begin with two underscores are TensorFlow's own."""
    has_no_scalars = empty_is_unknown(graph)
    for name, value in _entries(graph, _SIGNATURES):
        inputs, outputs = dict(_tensors(value, _INPUTS)), dict(_tensors(value, _OUTPUTS))
        if outputs and not name.startswith("__"):
            found = SignatureSpec(model, version, name, inputs, outputs)
            yield name, found.without_scalars() if has_no_scalars else found


def _tensors(signature: memoryview, field: int) -> Iterator[tuple[str, TensorSpec]]:
    for name, info in _entries(signature, field):
        dtype, shape = 0, shape_of(memoryview(b""))
        for number, value in _fields(info):
            if number == _DTYPE:
                dtype = read_varint(value, 0)[0]
            elif number == _SHAPE:
                shape = shape_of(value)
        yield name, TensorSpec(name, numpy_name(dtype), shape)


def shape_of(data: memoryview) -> tuple[int | None, ...] | None:
    """Return the sizes of a TensorShapeProto, None for each open one; None where the rank is unknown."""
    sizes: list[int | None] = []
    for number, value in _fields(data):
        if number == _UNKNOWN_RANK and read_varint(value, 0)[0]:
            return None
        if number == _DIMENSION:
            size = next((read_varint(part, 0)[0] for field, part in _fields(value) if field == _SIZE), 0)
            sizes.append(size if size < 1 << 63 else None)  # a negative number, two's complement
    return tuple(sizes)


def _entries(message: memoryview, field: int) -> Iterator[tuple[str, memoryview]]:
    """Yield the keys and values of a map field."""
    for number, entry in _fields(message):
        if number == field:
            parts = dict(_fields(entry))
            yield str(parts.get(_KEY, b""), "utf-8"), parts.get(_VALUE, memoryview(b""))
