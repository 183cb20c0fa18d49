"""Signatures of a SavedModel in OpenVINO, which reads them without TensorFlow.

``graph_check`` decides which signatures may be read: others crash the process or give wrong results.
"""

from __future__ import annotations

import math
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lightbox.model_runtime.engines.base import Array, failure, rows_apart, unfit
from lightbox.model_runtime.engines.hardware import INT8, Hardware
from lightbox.model_runtime.engines.openvino.bounds import BEYOND, add_bounds
from lightbox.model_runtime.engines.openvino.graph import FILE
from lightbox.model_runtime.engines.openvino.guards import OUT_OF_RANGE, REASONS, add_guards
from lightbox.model_runtime.engines.openvino.int8 import quantized
from lightbox.model_runtime.engines.openvino.verdicts import digest
from lightbox.model_runtime.formats import as_model_file
from lightbox.model_runtime.wire.dtypes import numpy_dtype
from lightbox.model_runtime.wire.messages import config_pb2, meta_graph_pb2
from lightbox.model_runtime.wire.protobuf import varint
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

DEFAULT_SIGNATURE = "serving_default"

_CONVERTER = "openvino.tools.ovc"
_KNOWN_SHAPES = 1024
_MOST_FAILURES = 3
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
        opens_rows: bool = False,
    ) -> None:
        """Read and compile the signature ``name`` of a SavedModel's folder, or of a file; raise StatusError if OpenVINO
        refuses it.

        With ``is_exact``, calls that may differ from TensorFlow are refused (``guards``). Without ``is_guarded`` there
        are no guards: TensorFlow never ran such a file. With ``opens_rows`` a graph of one row takes any number, if its
        outputs then have as many; ``signature`` says so.
        """
        self.name = name
        self.signature = meta_graph_pb2.SignatureDef()
        self.signature.CopyFrom(meta_graph.signature_def[name])
        self._place = place
        self._hardware = hardware
        self._is_guarded = is_guarded
        try:
            model, guards = self._read(meta_graph, opens_rows)
        except (OSError, RuntimeError) as error:
            raise StatusError(Code.INTERNAL, _first_line(error)) from None
        self._declared = {
            info.name: (numpy_dtype(info.dtype), tuple(dim.size for dim in info.tensor_shape.dim))
            for info in self.signature.inputs.values()
        }
        # OpenVINO calls the tensors of a SavedModel as its signature does, and those of a file by their own names.
        is_file = Path(place).is_file()
        aliases = {info.name if is_file else alias: info.name for alias, info in self.signature.inputs.items()}
        self._has_open_sizes = any(min(sizes[1:], default=0) < 0 for _, sizes in self._declared.values())
        self._row = {name: (1, *sizes[1:]) for name, (_, sizes) in self._declared.items()}
        inputs = {alias: port.index for port in _ports(model.inputs) for alias in port.names}
        try:
            self._feeds = {name: inputs[alias] for alias, name in aliases.items()}
        except KeyError as error:
            raise _missing(error) from None
        self._any_rows = _Network(model, hardware)
        self._one_row: _Network | None = None
        if self._has_open_batch():
            with suppress(StatusError):  # a graph may not take one row; other errors come again
                self._one_row = self._for_one_row(model)
        first = (self._one_row or self._any_rows).ready().compiled
        # A compiled model has one name for outputs that are the same tensor.
        outputs = {alias: port.index for port in _ports(first.outputs) for alias in port.names}
        try:
            self._fetches = {
                info.name: outputs[info.name if is_file else alias] for alias, info in self.signature.outputs.items()
            }
        except KeyError as error:
            raise _missing(error) from None
        self._guards = [(outputs[name], REASONS[name]) for name in guards if is_exact or name in (BEYOND, OUT_OF_RANGE)]

    def _has_open_batch(self) -> bool:
        """Return whether the number of rows is all that the declared shapes leave open."""
        shapes = [sizes for _, sizes in self._declared.values()]
        return bool(shapes) and all(sizes and sizes[0] < 0 and min(sizes[1:], default=0) >= 0 for sizes in shapes)

    def _read(self, meta_graph: meta_graph_pb2.MetaGraphDef, opens_rows: bool) -> tuple[Any, list[str]]:
        """Return OpenVINO's model and the names of its guards. Raises OSError, and RuntimeError as OpenVINO does."""
        with _readable(self._place, meta_graph, self.name, self._hardware.precision) as readable:
            model = imported().Core().read_model(readable)
            model = self._with_open_rows(model) if opens_rows else model
            guards = add_guards(model) if self._is_guarded else []
            return model, [*guards, *add_bounds(model)]

    def _with_open_rows(self, model: Any) -> Any:
        shapes = [info.tensor_shape.dim for info in (*self.signature.inputs.values(), *self.signature.outputs.values())]
        if any(not shape or shape[0].size != 1 for shape in shapes):
            return model
        opened = model.clone()
        try:
            opened.reshape({at: [-1, *list(port.partial_shape)[1:]] for at, port in enumerate(model.inputs)})
        except RuntimeError:
            return model
        if not all(output.partial_shape[0].is_dynamic for output in opened.outputs):
            return model
        for shape in shapes:
            shape[0].size = -1
        return opened

    def _for_one_row(self, model: Any) -> _Network:
        """Return the model for one row, compiled. Raises StatusError."""
        model = model.clone()
        try:
            model.reshape({at: self._row[name] for name, at in self._feeds.items()})
        except RuntimeError as error:
            raise StatusError(Code.INTERNAL, _first_line(error)) from None
        network = _Network(model, self._hardware)
        network.ready()
        return network

    def _network(self, feeds: Mapping[str, Array]) -> _Network:
        if self._one_row is not None and all(array.shape == self._row[name] for name, array in feeds.items()):
            return self._one_row
        return self._any_rows

    def takes(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> bool:
        """Return whether the signature has exactly these inputs, and has these outputs."""
        return feeds.keys() == self._feeds.keys() and self._fetches.keys() >= set(fetches)

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
            return rows_apart(self.signature, feeds)
        # TensorFlow refuses inputs that OpenVINO may broadcast.
        rows = {array.shape[0] for name, array in feeds.items() if array.ndim and self._declared[name][1][0] < 0}
        return f"the inputs have {' and '.join(map(str, sorted(rows)))} rows" if len(rows) > 1 else None

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Return the values of ``fetches``; see ``Runner.run``."""
        network = self._network(feeds)
        if network.is_dynamic and not network.takes({at: feeds[name].shape for name, at in self._feeds.items()}):
            raise unfit(feeds, self._has_open_sizes)
        ready = network.ready()
        limit = config_pb2.RunOptions.FromString(options).timeout_in_ms if options else 0
        end = time.monotonic() + limit / 1000 if limit else math.inf
        try:
            results = self._answer(network, ready, feeds, fetches, end)
        except RuntimeError as error:
            if not network.is_dynamic or network.failures >= _MOST_FAILURES:
                raise failure("OpenVINO", error, feeds, self._has_open_sizes) from None
        else:
            network.failures = 0
            return results
        # Another call's failure may be the cause. A model that no other call uses tells; there is one at a time.
        with network.alone:
            if time.monotonic() >= end:
                raise _late()
            fresh = network.compile()
            try:
                results = self._answer(network, fresh, feeds, fetches, end)
            except RuntimeError as error:
                network.failures += 1
                raise failure("OpenVINO", error, feeds, self._has_open_sizes) from None
            network.failures = 0
            network.replace(None, fresh)
        return results

    def _answer(
        self, network: _Network, ready: _Ready, feeds: Mapping[str, Array], fetches: Sequence[str], end: float
    ) -> list[Array]:
        """Run a call. Raises StatusError, and RuntimeError as OpenVINO does; then later calls use another model."""
        try:
            request = ready.idle.pop()  # the last one used: its memory is still in the caches
        except IndexError:
            request = _Request(ready.compiled.create_infer_request())
        try:
            is_done = request.run({self._feeds[name]: array for name, array in feeds.items()}, end)
        except RuntimeError:
            network.replace(ready, None)
            raise
        if not is_done:
            network.replace(ready, None)
            request.cancel()
            raise _late()
        try:
            for guard, reason in self._guards:
                if request.output(guard):
                    raise invalid(reason)
            return [request.output(self._fetches[name]) for name in fetches]
        finally:
            ready.idle.append(request)


class _Request:
    """OpenVINO's request and the memory of its inputs, which are copied as a caller's array may be read-only."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._tensor = imported().Tensor
        self._inputs: dict[int, Array] = {}

    def run(self, inputs: Mapping[int, Array], end: float) -> bool:
        """Return whether the call has ended before a moment of ``time.monotonic``. Raises RuntimeError as OpenVINO
        does."""
        for index, array in inputs.items():
            held = self._inputs.get(index)
            if held is None or held.shape != array.shape:
                tensor = self._tensor(array.dtype, array.shape)
                self._request.set_input_tensor(index, tensor)
                held = self._inputs[index] = tensor.data
            np.copyto(held, array)
        self._request.start_async()
        if math.isfinite(end):
            return bool(self._request.wait_for(max(0, round(1000 * (end - time.monotonic())))))
        self._request.wait()
        return True

    def cancel(self) -> None:
        self._request.cancel()

    def output(self, index: int) -> Array:
        return np.array(self._request.get_output_tensor(index).data)


@dataclass(frozen=True)
class _Ready:
    """A compiled model, and its requests that no thread uses."""

    compiled: Any
    idle: list[_Request] = field(default_factory=list)


class _Network:
    """A model, compiled at its first call and again after one that failed or was cancelled.

    If shapes are dynamic, a compiled model keeps some of those of a failed call, whichever request made it, and fails
    later calls by them. The weights are the compiled model's own: to keep the model takes no memory.
    """

    def __init__(self, model: Any, hardware: Hardware) -> None:
        self.is_dynamic = bool(model.is_dynamic())
        self._model = model
        self._hardware = hardware
        self.failures = 0
        """Calls in a row that failed with a model of their own; after some, others get none."""
        self.alone = threading.Lock()
        """Held by the call that has a model of its own."""
        self._ready: _Ready | None = None
        self._lock = threading.Lock()
        self._taken: dict[tuple[tuple[int, ...], ...], bool] = {}

    def takes(self, shapes: Mapping[int, tuple[int, ...]]) -> bool:
        """Return whether the model's operations take inputs of these shapes, found out once for each."""
        key = tuple(shapes.values())
        if (known := self._taken.get(key)) is None:
            known = True
            try:
                self._model.clone().reshape(dict(shapes))
            except RuntimeError:
                known = False
            with self._lock:
                if len(self._taken) >= _KNOWN_SHAPES:
                    self._taken.clear()
                self._taken[key] = known
        return known

    def compile(self) -> _Ready:
        """Return the model, compiled for the caller alone. Raises StatusError."""
        try:
            return _Ready(imported().Core().compile_model(self._model, "CPU", properties(self._hardware)))
        except RuntimeError as error:
            raise StatusError(Code.INTERNAL, _first_line(error)) from None

    def ready(self) -> _Ready:
        """Return the compiled model for all calls. Raises StatusError."""
        ready = self._ready
        if ready is None:
            with self._lock:
                ready = self._ready = self._ready or self.compile()
        return ready

    def replace(self, held: _Ready | None, by: _Ready | None) -> None:
        """Replace the compiled model for all calls if it is ``held``, and dynamic."""
        if self.is_dynamic and self._ready is held:
            with self._lock:
                if self._ready is held:
                    self._ready = by


@dataclass(frozen=True)
class _Port:
    index: int
    names: set[str]


def _ports(nodes: Sequence[Any]) -> list[_Port]:
    """Return inputs or outputs with all their names; unnamed ones have their node's name."""
    return [_Port(index, node.get_names() or {node.node.friendly_name}) for index, node in enumerate(nodes)]


@contextmanager
def _readable(place: str, meta_graph: meta_graph_pb2.MetaGraphDef, name: str, precision: str = "f32") -> Iterator[Path]:
    """Yield the path from which OpenVINO reads a signature: its INT8 model if requested and present, a file itself, or
    a SavedModel with this signature."""
    folder, file = Path(place), as_model_file(Path(place))
    made = quantized(folder.parent if file else folder, name, digest(folder)) if precision == INT8 else None
    if made is not None:
        yield made.path
        return
    if file:
        if precision == INT8:
            raise invalid(f"{file.path} has no INT8 model: lightbox optimize makes one")
        with file.together() as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="openvino-") as copy:
        _write_single(folder.absolute(), Path(copy), meta_graph, name)
        yield Path(copy)


def read_signature(folder: str, meta_graph: meta_graph_pb2.MetaGraphDef, name: str) -> Any:
    """Return OpenVINO's model of a signature in its SavedModel, or of a file. Raises RuntimeError as OpenVINO does."""
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


def _late() -> StatusError:
    return StatusError(Code.DEADLINE_EXCEEDED, "Timed out waiting for notification")


def _missing(error: KeyError) -> StatusError:
    return StatusError(Code.INTERNAL, f"OpenVINO has no tensor for {error.args[0]!r}")


def _first_line(error: Exception) -> str:
    """Return an error's text without the places in OpenVINO's sources."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"OpenVINO: {lines[-1] if lines else error!r}"
