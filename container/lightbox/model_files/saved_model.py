"""The signatures of a SavedModel, read from its file before anything loads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lightbox.base.errors import StartError
from lightbox.model.spec import DEFAULT_SIGNATURE, SignatureSpec, TensorSpec
from lightbox.model_files.foreign_files import POINTER, content_problem, is_pointer_file
from lightbox.model_files.layout import version_folder
from lightbox.model_files.rescaling import Rescaling, find_rescaling
from lightbox.model_files.tf_graph import MetaGraph, empty_is_unknown, operations, parse, shape_of
from lightbox.model_files.variables import variables_problem
from lightbox.model_runtime.access import pass_lack, read_file
from lightbox.model_runtime.formats.signature import check_tensors
from lightbox.model_runtime.wire.dtypes import numpy_name
from lightbox.model_runtime.wire.ranks import least_rank

FILE = "saved_model.pb"
_MOST_BYTES = (2 << 30) - 1
"""Protobuf's limit of a message."""
_MOST_SIGNATURES, _MOST_TENSORS = 1024, 1 << 14
SERVE_TAG = "serve"
"""The tag of the graph that model servers load; a graph with further tags is another one."""


class ModelFileError(StartError):
    """A model's file cannot be served; the message is a sentence that names its file."""


def read_signatures(folder: Path, model: str, version: int) -> dict[str, SignatureSpec]:
    """Return the public signatures of ``folder/saved_model.pb`` by name.

    Raises ModelFileError for an unreadable file, without a graph to serve, or without a signature that has an output.
    One with a sparse input is left out, and refused if it is the default one or the only one.
    """
    path = folder / FILE
    graph = serving_graph(path)
    try:
        signatures = dict(_signatures(graph, model, version))
    except ValueError as error:
        raise ModelFileError(f"{path} cannot be served: {error}") from None
    sparse = {
        name: tensor
        for name in signatures
        for tensor, info in graph.signature_def[name].inputs.items()
        if not info.name  # a sparse or composite tensor has several names, in another field
    }
    if sparse and (DEFAULT_SIGNATURE in sparse or sparse.keys() == signatures.keys()):
        name = DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in sparse else min(sparse)
        raise ModelFileError(
            f"{path}: the signature {name!r} takes the sparse tensor {sparse[name]!r}, which requests cannot carry: "
            "save a signature of dense tensors"
        )
    signatures = {name: signature for name, signature in signatures.items() if name not in sparse}
    if not signatures:
        raise ModelFileError(
            f"{path} has no usable signature: expected one with an output, such as 'serving_default'; "
            "give signatures= to tf.saved_model.save"
        )
    return signatures


def check_whole(folder: Path) -> None:
    """Raise ModelFileError if ``folder`` lacks a variable or an asset that the SavedModel's graph needs."""
    graph = serving_graph(folder / FILE)
    try:
        assets = (_asset_problem(folder / "assets", asset.filename) for asset in graph.asset_file_def)
        problem = next(filter(None, assets), None) or variables_problem(folder, graph)
    except OSError as error:
        pass_lack(error)
        raise ModelFileError(f"{error.filename} cannot be read: {error.strerror}") from None
    if problem:
        raise ModelFileError(f"{problem}; a version is not complete until all its files exist")


def input_rescaling(folder: Path, signature: str, name: str) -> Rescaling:
    """Return the first rescaling of an input in the graph of ``folder/saved_model.pb``.

    Raises ModelFileError for an unreadable file.
    """
    path = folder / FILE
    graph = serving_graph(path)
    try:
        return find_rescaling(graph, graph.signature_def[signature].inputs[name].name)
    except ValueError as error:
        raise _damaged(path, error) from None


@dataclass(frozen=True)
class Traits:
    """Properties of a graph beyond its signatures: ranks that may crash its server, and the meaning of an empty shape.

    Inputs of rank ``least_rank`` or more crash no server; it is 0 for a graph without such operations.
    """

    least_rank: int
    has_no_scalars: bool


WORST = Traits(least_rank=1, has_no_scalars=False)
"""For an unreadable graph: declared ranks must hold, and inputs without one are not checked."""


def traits(base_path: Path, version: int) -> Traits:
    """Return the traits of a version of a model, WORST for an unreadable file. Each file is read once."""
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
    """Return the graph that model servers load. Raises ModelFileError, and OSError as ``pass_lack``."""
    try:
        content = read_file(path, _MOST_BYTES)
    except OSError as error:
        pass_lack(error)
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
    if problem := content_problem(content):
        raise ModelFileError(f"{path} {problem}")
    try:
        graphs = parse("SavedModel", content).meta_graphs
    except ValueError as error:
        raise _damaged(path, error) from None
    serving = next((graph for graph in graphs if set(graph.meta_info_def.tags) == {SERVE_TAG}), None)
    if serving is None:
        raise ModelFileError(f"{path} has no graph with the single tag {SERVE_TAG!r}: it has nothing to serve")
    return serving


def _damaged(path: Path, error: ValueError) -> ModelFileError:
    return ModelFileError(f"{path} is not a SavedModel, or is damaged: {error}")


def _asset_problem(assets: Path, name: str) -> str | None:
    file = assets / name
    if ".." in file.parts or not file.is_relative_to(assets):  # it is not even looked at
        return f"{assets.parent / FILE} names the asset {name[:200]!r}, which is not in {assets.name}"
    if not file.exists():
        return f"{file} is missing"
    return f"{file} {POINTER}" if is_pointer_file(file) else None


def _signatures(graph: MetaGraph, model: str, version: int) -> Iterator[tuple[str, SignatureSpec]]:
    """Yield the signatures with outputs; names with two leading underscores are TensorFlow's own."""
    has_no_scalars = empty_is_unknown(graph)
    if len(graph.signature_def) > _MOST_SIGNATURES:
        raise ValueError(f"it has {len(graph.signature_def):,} signatures, expected at most {_MOST_SIGNATURES:,}")
    tensors = sum(len(one.inputs) + len(one.outputs) for one in graph.signature_def.values())
    if tensors > _MOST_TENSORS:
        raise ValueError(f"its signatures have {tensors:,} inputs and outputs, expected at most {_MOST_TENSORS:,}")
    for name, signature in sorted(graph.signature_def.items()):
        if signature.outputs and not name.startswith("__"):
            for described in (signature.inputs, signature.outputs):
                check_tensors({tensor: info.tensor_shape.dim for tensor, info in described.items()})
            found = SignatureSpec(model, version, name, _tensors(signature.inputs), _tensors(signature.outputs))
            yield name, found.without_scalars() if has_no_scalars else found


def _tensors(described: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(name, numpy_name(info.dtype), shape_of(info.tensor_shape))
        for name, info in sorted(described.items())
    }
