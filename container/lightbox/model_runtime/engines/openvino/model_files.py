"""Files of other formats than SavedModel, for which OpenVINO's results are the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightbox.model_runtime.engines.engine import Opened, OpenOptions
from lightbox.model_runtime.engines.openvino.compiled import Compiled
from lightbox.model_runtime.engines.openvino.fallback import OpenVinoWithFallback
from lightbox.model_runtime.formats import LITERT, ModelFile
from lightbox.model_runtime.formats.onnx import operations
from lightbox.model_runtime.formats.signature import SIGNATURE, FileSignature, signature_def
from lightbox.model_runtime.wire.dtypes import DT_DOUBLE, DT_INT64, DT_STRING, DT_UINT32, DT_UINT64
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import invalid, unreadable

_WIDE = {DT_INT64, DT_UINT32, DT_UINT64, DT_DOUBLE}
_POOLS = {"AveragePool", "MaxPool", "LpPool"}


def open_file(file: ModelFile, options: OpenOptions) -> Opened:
    """Load a file; raise StatusError if it is damaged, has strings, or OpenVINO cannot convert it."""
    try:
        signature = file.signature()
    except (OSError, ValueError) as error:
        raise unreadable(str(file.path), error) from None
    if (name := _strings(signature)) is not None:
        raise invalid(f"{name!r} of {file.path} holds strings")
    graph = meta_graph_pb2.MetaGraphDef()
    graph.signature_def[SIGNATURE].CopyFrom(signature_def(signature))
    # TensorFlow Serving resizes the inputs of LiteRT files to a request.
    opens_rows = file.format is LITERT
    place = str(file.place())
    compiled = Compiled(
        place, graph, SIGNATURE, options.hardware, is_exact=False, is_guarded=False, opens_rows=opens_rows
    )
    graph.signature_def[SIGNATURE].CopyFrom(compiled.signature)
    runner = OpenVinoWithFallback(graph, {SIGNATURE: compiled}, {}, None)
    runner.warm(options.batches)
    return Opened(runner, {})


def departures(file: ModelFile) -> list[str]:
    """Return what OpenVINO computes otherwise than ONNX specifies, in an ONNX file; see docs/engines.md."""
    try:
        wide = [name for name, tensor in file.signature().inputs.items() if tensor.dtype in _WIDE]
        result = [f"the input {name!r} in 32 bits" for name in wide]
        for operation, attributes in operations(file.place()):
            if _is_computed_otherwise(operation, attributes):
                result.append(operation)
    except (OSError, ValueError):  # a load says why
        return []
    return list(dict.fromkeys(result))


def _is_computed_otherwise(operation: str, attributes: Mapping[str, Sequence[int]]) -> bool:
    if operation == "Resize":
        return any(attributes.get("antialias", ()))
    is_rounded_up = operation in _POOLS and any(attributes.get("ceil_mode", ()))
    return is_rounded_up and (operation == "LpPool" or any(attributes.get("pads", ())))


def _strings(signature: FileSignature) -> str | None:
    tensors = {**signature.inputs, **signature.outputs}
    return next((name for name, tensor in tensors.items() if tensor.dtype == DT_STRING), None)
