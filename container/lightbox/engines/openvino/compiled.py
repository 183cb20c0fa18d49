"""Signatures of a SavedModel in OpenVINO, which reads them without TensorFlow.

``graph_check`` decides which signatures may be read: others crash the process or give wrong results.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lightbox.engines.base import Array
from lightbox.engines.hardware import INT8, Hardware
from lightbox.engines.openvino.graph import FILE, read_meta_graph
from lightbox.engines.openvino.guards import OUT_OF_RANGE, REASONS, add_guards
from lightbox.engines.openvino.int8 import quantized
from lightbox.engines.openvino.verdicts import digest
from lightbox.tfs_wire.dtypes import numpy_dtype
from lightbox.tfs_wire.messages import config_pb2, meta_graph_pb2
from lightbox.tfs_wire.protobuf import varint
from lightbox.tfs_wire.status import Code, StatusError, invalid

DEFAULT_SIGNATURE = "serving_default"

_CONVERTER = "openvino.tools.ovc"
_META_GRAPHS_TAG = 2 << 3 | 2


def properties(hardware: Hardware) -> dict[str, object]:
    """Return OpenVINO's properties.

    The precision is set even to f32, as some CPUs default to bf16. The operations of INT8 models are in the model
    itself; its others run in f32. Threads are not pinned: several processes would pin theirs to the same cores.
    """
    return {
        "INFERENCE_PRECISION_HINT": "f32" if hardware.precision == INT8 else hardware.precision,
        "INFERENCE_NUM_THREADS": hardware.threads,
        "NUM_STREAMS": hardware.streams,
        "ENABLE_CPU_PINNING": False,
    }


def imported() -> Any:
    """Return the package ``openvino`` without its model converter, which is unused and half of the import time."""
    if "openvino" not in sys.modules:
        sys.modules[_CONVERTER] = None  #  type: ignore[assignment] # marks the module as missing
    import openvino

    if sys.modules.get(_CONVERTER, openvino) is None:
        sys.modules.pop(_CONVERTER, None)  # another thread may have done so
    return openvino


class Compiled:
    """One compiled signature. Any number of threads may call ``run``: each has a request of its own.

    A model whose shapes are known takes down to half the CPU time of the same model with an open batch, with the same
    results. So a call of one row has a model of its own; that for any number of rows is compiled at its first use.
    """

    def __init__(
        self,
        place: str,
        meta_graph: meta_graph_pb2.MetaGraphDef,
        name: str,
        hardware: Hardware,
        is_exact: bool = True,
        is_guarded: bool = True,
    ) -> None:
        """Read and compile the signature ``name`` of a SavedModel's folder, or of a file; raise StatusError if OpenVINO
        refuses it.

        With ``is_exact``, calls that may differ from TensorFlow are refused (``guards``). Without ``is_guarded`` there
        are no guards: TensorFlow never ran such a file.
        """
        self.name = name
        self.signature = meta_graph_pb2.SignatureDef()
        self.signature.CopyFrom(meta_graph.signature_def[name])
        self._place = place
        self._tags = tuple(meta_graph.meta_info_def.tags)
        self._hardware = hardware
        self._is_guarded = is_guarded
        self._declared = {
            info.name: (numpy_dtype(info.dtype), tuple(dim.size for dim in info.tensor_shape.dim))
            for info in self.signature.inputs.values()
        }
        # OpenVINO calls the tensors of a SavedModel as its signature does, and those of a file by their own names.
        self._is_file = is_file = Path(place).is_file()
        self._inputs = {info.name if is_file else alias: info.name for alias, info in self.signature.inputs.items()}
        self._row = {name: (1, *sizes[1:]) for name, (_, sizes) in self._declared.items()}
        self._one_row: _Model | None = None
        self._any_rows: _Model | None = None
        self._lock = threading.Lock()
        if self._has_open_batch():
            with suppress(StatusError):  # a graph may not take one row; other errors come again
                self._one_row = self._compiled(meta_graph, self._row)
        first = self._one_row
        if first is None:
            first = self._any_rows = self._compiled(meta_graph)
        # A compiled model has one name for outputs that are the same tensor.
        inputs = {alias: port.index for port in _ports(first.compiled.inputs) for alias in port.names}
        outputs = {alias: port.index for port in _ports(first.compiled.outputs) for alias in port.names}
        try:
            self._feeds = {name: inputs[alias] for alias, name in self._inputs.items()}
            self._fetches = {
                info.name: outputs[info.name if is_file else alias] for alias, info in self.signature.outputs.items()
            }
        except KeyError as error:
            raise StatusError(Code.INTERNAL, f"OpenVINO has no tensor for {error.args[0]!r}") from None
        self._guards = [(outputs[name], REASONS[name]) for name in first.guards if is_exact or name == OUT_OF_RANGE]

    def _has_open_batch(self) -> bool:
        """Return whether the number of rows is all that the declared shapes leave open."""
        shapes = [sizes for _, sizes in self._declared.values()]
        return bool(shapes) and all(sizes and sizes[0] < 0 and min(sizes[1:], default=0) >= 0 for sizes in shapes)

    def _compiled(
        self, meta_graph: meta_graph_pb2.MetaGraphDef, shapes: Mapping[str, tuple[int, ...]] | None = None
    ) -> _Model:
        """Compile the model with its guards, for inputs of these shapes if they are given. Raises StatusError."""
        core = imported().Core()
        try:
            with _readable(self._place, meta_graph, self.name, self._hardware.precision) as readable:
                model = core.read_model(readable)
                guards = add_guards(model) if self._is_guarded else []
                if shapes is not None:
                    model.reshape({alias: shapes[name] for alias, name in self._inputs.items()})
                return _Model(core.compile_model(model, "CPU", properties(self._hardware)), guards)
        except RuntimeError as error:
            raise StatusError(Code.INTERNAL, _first_line(error)) from None

    def _model(self, feeds: Mapping[str, Array]) -> _Model:
        if self._one_row is not None and all(array.shape == self._row[name] for name, array in feeds.items()):
            return self._one_row
        with self._lock:
            if self._any_rows is None:
                self._any_rows = self._compiled_again()
            return self._any_rows

    def _compiled_again(self) -> _Model:
        """Read the model again, as its graph may be too large to be kept, and compile it for any number of rows.

        Raises StatusError INTERNAL: if the model's folder is gone, the call is not to blame.
        """
        try:
            graph = meta_graph_pb2.MetaGraphDef() if self._is_file else read_meta_graph(self._place, self._tags)
            return self._compiled(graph)
        except (OSError, StatusError) as error:
            why = error.message if isinstance(error, StatusError) else error
            raise StatusError(Code.INTERNAL, f"for more than one row, the model cannot be compiled: {why}") from None

    def takes(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> bool:
        """Return whether the signature has exactly these inputs, and has these outputs."""
        return feeds.keys() == self._feeds.keys() and all(name in self._fetches for name in fetches)

    def misfit(self, feeds: Mapping[str, Array]) -> str | None:
        """Return how the inputs differ from the signature's declaration, None if they do not."""
        for name, array in feeds.items():
            dtype, sizes = self._declared[name]
            if array.dtype != dtype:
                return f"{name} is {array.dtype}, declared {dtype}"
            shape = array.shape
            if len(shape) != len(sizes) or any(want not in (-1, have) for have, want in zip(shape, sizes, strict=True)):
                return f"{name} has the shape {list(shape)}, declared {list(sizes)}"
            if array.size == 0:
                return f"{name} is empty"
        if not self._is_guarded:
            return None
        # TensorFlow refuses inputs that OpenVINO may broadcast.
        rows = {array.shape[0] for name, array in feeds.items() if array.ndim and self._declared[name][1][0] < 0}
        return f"the inputs have {' and '.join(map(str, sorted(rows)))} rows" if len(rows) > 1 else None

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Return the values of ``fetches``; see ``Runner.run``."""
        model = self._model(feeds)
        try:
            request = model.idle.pop()  # the last one used: its memory is still in the caches
        except IndexError:
            request = _Request(model.compiled.create_infer_request())
        try:
            request.run({self._feeds[name]: array for name, array in feeds.items()}, options)
            for guard, reason in self._guards:
                if request.output(guard):
                    raise invalid(reason)
            return [request.output(self._fetches[name]) for name in fetches]
        except RuntimeError as error:
            raise StatusError(Code.INTERNAL, _first_line(error)) from None
        finally:
            model.idle.append(request)


class _Request:
    """OpenVINO's request and the memory of its inputs, which are copied as a caller's array may be read-only."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._tensor = imported().Tensor
        self._inputs: dict[int, Array] = {}

    def run(self, inputs: Mapping[int, Array], options: bytes) -> None:
        for index, array in inputs.items():
            held = self._inputs.get(index)
            if held is None or held.shape != array.shape:
                tensor = self._tensor(array.dtype, array.shape)
                self._request.set_input_tensor(index, tensor)
                held = self._inputs[index] = tensor.data
            np.copyto(held, array)
        limit = config_pb2.RunOptions.FromString(options).timeout_in_ms if options else 0
        self._request.start_async()
        if not limit:
            self._request.wait()
        elif not self._request.wait_for(limit):
            self._request.cancel()
            raise StatusError(Code.DEADLINE_EXCEEDED, "Timed out waiting for notification")

    def output(self, index: int) -> Array:
        return np.array(self._request.get_output_tensor(index).data)


@dataclass(frozen=True)
class _Model:
    """A compiled model, the names of its guards, and its requests that no thread uses."""

    compiled: Any
    guards: Sequence[str]
    idle: list[_Request] = field(default_factory=list)


@dataclass(frozen=True)
class _Port:
    index: int
    names: set[str]


def _ports(nodes: Sequence[Any]) -> list[_Port]:
    """Return inputs or outputs with all their names; unnamed ones have their node's name."""
    return [_Port(index, node.get_names() or {node.node.friendly_name}) for index, node in enumerate(nodes)]


@contextmanager
def _readable(place: str, meta_graph: meta_graph_pb2.MetaGraphDef, name: str, precision: str = "f32") -> Iterator[Path]:
    """Yield the path from which OpenVINO reads a signature: a file itself, its INT8 model if requested and present, or
    a SavedModel with this signature."""
    folder = Path(place)
    if folder.is_file():
        yield folder
        return
    made = quantized(place, name, digest(folder)) if precision == INT8 else None
    if made is not None:
        yield made.path
        return
    with tempfile.TemporaryDirectory(prefix="openvino-") as copy:
        _write_single(folder.resolve(), Path(copy), meta_graph, name)
        yield Path(copy)


def read_signature(folder: str, meta_graph: meta_graph_pb2.MetaGraphDef, name: str) -> Any:
    """Return OpenVINO's model of a signature in its SavedModel. Raises RuntimeError as OpenVINO does."""
    with _readable(folder, meta_graph, name) as readable:
        return imported().Core().read_model(readable)


def _write_single(folder: Path, copy: Path, meta_graph: meta_graph_pb2.MetaGraphDef, name: str) -> None:
    """Write a SavedModel with the single signature ``name`` as ``serving_default``, which OpenVINO reads."""
    single = meta_graph_pb2.MetaGraphDef()
    single.CopyFrom(meta_graph)
    wanted = meta_graph.signature_def[name]
    single.signature_def.clear()
    single.signature_def[DEFAULT_SIGNATURE].CopyFrom(wanted)
    content = single.SerializeToString(deterministic=True)
    (copy / FILE).write_bytes(bytes([_META_GRAPHS_TAG]) + varint(len(content)) + content)
    for part in ("variables", "assets"):
        if (folder / part).exists():
            (copy / part).symlink_to(folder / part)


def _first_line(error: RuntimeError) -> str:
    """Return an error's text without the places in OpenVINO's sources."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"OpenVINO: {lines[-1] if lines else error!r}"
