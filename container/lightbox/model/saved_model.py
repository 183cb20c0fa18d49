"""The signatures of a SavedModel, read from its file before anything loads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lightbox.core.errors import StartError
from lightbox.model.foreign_files import POINTER, content_problem, is_pointer_file
from lightbox.model.graph import MetaGraph, empty_is_unknown, operations, parse, shape_of
from lightbox.model.layout import version_folder
from lightbox.model.rescaling import Rescaling, find_rescaling
from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.model.variables import variables_problem
from lightbox.tfs_wire.dtypes import numpy_name
from lightbox.tfs_wire.ranks import least_rank

FILE = "saved_model.pb"
SERVE_TAG = "serve"
"""The tag of the graph that model servers load; one with further tags is another graph."""


class ModelFileError(StartError):
    """A model's file cannot be served; the message is a sentence that names its file."""


def read_signatures(folder: Path, model: str, version: int) -> dict[str, SignatureSpec]:
    """Return the signatures of ``folder/saved_model.pb`` that can be asked for, by name.

    Raises ModelFileError when the file cannot be read, when it has no graph to serve, or none of its signatures
    gives an output.
    """
    path = folder / FILE
    found = dict(_signatures(serving_graph(path), model, version))
    if not found:
        raise ModelFileError(
            f"{path} has no usable signature: expected one with an output, such as 'serving_default'; "
            "give signatures= to tf.saved_model.save"
        )
    return found


def check_whole(folder: Path) -> None:
    """Raise ModelFileError when a variable or an asset that the graph of a SavedModel needs is not in ``folder``."""
    graph = serving_graph(folder / FILE)
    try:
        assets = (folder / "assets" / asset.filename for asset in graph.asset_file_def)
        problem = next(filter(None, map(_asset_problem, assets)), None) or variables_problem(folder, graph)
    except OSError as error:
        raise ModelFileError(f"{error.filename} cannot be read: {error.strerror}") from None
    if problem:
        raise ModelFileError(f"{problem}; a version is not complete until all its files exist")


def input_rescaling(folder: Path, signature: str, name: str) -> Rescaling:
    """Return what the graph of ``folder/saved_model.pb`` does first to the values of an input.

    Raises ModelFileError where the file cannot be read.
    """
    path = folder / FILE
    graph = serving_graph(path)
    try:
        return find_rescaling(graph, graph.signature_def[signature].inputs[name].name)
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
    except (OSError, ModelFileError):
        return WORST


@lru_cache(maxsize=1000)
def _traits(path: Path, *_: int) -> Traits:
    graph = serving_graph(path)
    return Traits(max(map(least_rank, operations(graph)), default=0), empty_is_unknown(graph))


def serving_graph(path: Path) -> MetaGraph:
    """Return the graph that model servers load. Raises ModelFileError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    if problem := content_problem(content):
        raise ModelFileError(f"{path} {problem}")
    try:
        graphs = parse("SavedModel", content).meta_graphs
    except ValueError as error:
        raise _damaged(path, error) from None
    serving = next((graph for graph in graphs if set(graph.meta_info_def.tags) == {SERVE_TAG}), None)
    if serving is None:
        raise ModelFileError(f"{path} has no graph with the one tag {SERVE_TAG!r}: there is nothing to serve in it")
    return serving


def _damaged(path: Path, error: ValueError) -> ModelFileError:
    return ModelFileError(f"{path} is not a SavedModel, or is damaged: {error}")


def _asset_problem(file: Path) -> str | None:
    if not file.exists():
        return f"{file} is missing"
    return f"{file} {POINTER}" if is_pointer_file(file) else None


def _signatures(graph: MetaGraph, model: str, version: int) -> Iterator[tuple[str, SignatureSpec]]:
    """Yield what has outputs; names that begin with two underscores are TensorFlow's own."""
    has_no_scalars = empty_is_unknown(graph)
    for name, signature in sorted(graph.signature_def.items()):
        if signature.outputs and not name.startswith("__"):
            found = SignatureSpec(model, version, name, _tensors(signature.inputs), _tensors(signature.outputs))
            yield name, found.without_scalars() if has_no_scalars else found


def _tensors(described: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(name, numpy_name(info.dtype), shape_of(info.tensor_shape))
        for name, info in sorted(described.items())
    }
