"""The inputs and outputs of a model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lightbox.model_runtime.wire.dtypes import MAX_DIMENSIONS

if TYPE_CHECKING:
    from lightbox.model_runtime.wire.messages import meta_graph_pb2

SIGNATURE = "serving_default"
"""The name of the one signature."""
MOST_TENSORS = 1024
"""Most inputs, and most outputs."""
INFO, ENDS, LITERT = "model_info.", "ends_in.", "litert."
"""The beginning of notes with a value of OpenVINO's ``model_info``, of those with the operation that has made the
numbers of each output, and of those from TFLite Metadata; only where a file has such values."""
FOUND_NOTES = (INFO, ENDS, LITERT)
"""The beginnings of notes that a format's reader makes of what stands elsewhere in a file."""


class FileTensor(NamedTuple):
    """An input or output: TensorFlow's number of its dtype, its shape, and its name to the runtime.

    ``shape`` holds None for an open dimension and is None altogether for an unknown rank.
    """

    dtype: int
    shape: tuple[int | None, ...] | None
    name: str
    rows: str = ""
    """The file's name for the size of an open first dimension: it is the same wherever it stands."""
    classes: tuple[int | str, ...] = ()
    """The keys of the map that the file gives for each row; the columns are in their order."""


class FileSignature(NamedTuple):
    """Inputs and outputs by the names that callers give them, in the file's order.

    ``notes`` are those of the exporter about the model, by name.
    """

    inputs: Mapping[str, FileTensor]
    outputs: Mapping[str, FileTensor]
    notes: Mapping[str, str] = MappingProxyType({})


def check_tensors(shapes: Mapping[str, Sequence[int | None] | None]) -> None:
    """Raise ValueError for more inputs or outputs, or dimensions of one, than a request can have."""
    if len(shapes) > MOST_TENSORS:
        raise ValueError(f"it has {len(shapes):,} inputs or outputs, expected at most {MOST_TENSORS:,}")
    for name, shape in shapes.items():
        if shape is not None and len(shape) > MAX_DIMENSIONS:
            raise ValueError(f"{name!r} has {len(shape):,} dimensions, expected at most {MAX_DIMENSIONS}")


def check_weights(file: Path, need: int) -> None:
    """Raise ValueError unless a file of weights is there and has ``need`` bytes or more."""
    if not file.is_file():
        raise ValueError(f"{file} is missing")
    if (have := file.stat().st_size) < need:
        raise ValueError(f"{file} has {have:,} bytes, expected {need:,}")


def signature_def(signature: FileSignature) -> meta_graph_pb2.SignatureDef:
    """Return a signature in the model server's form."""
    from lightbox.model_runtime.wire.messages import meta_graph_pb2

    made = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
    for tensors, place in ((signature.inputs, made.inputs), (signature.outputs, made.outputs)):
        for name, tensor in tensors.items():
            info = place[name]
            info.name, info.dtype = tensor.name, tensor.dtype
            info.tensor_shape.unknown_rank = tensor.shape is None
            for size in tensor.shape or ():
                info.tensor_shape.dim.add(size=-1 if size is None else size)
            if tensor.rows:
                info.tensor_shape.dim[0].name = tensor.rows
    return made
