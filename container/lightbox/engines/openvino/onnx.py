"""ONNX files, whose answers are OpenVINO's own."""

from __future__ import annotations

from pathlib import Path

from lightbox.engines.engine import Opened, OpenOptions
from lightbox.engines.onnx_file import SIGNATURE, OnnxSignature, signature_def
from lightbox.engines.onnx_file import read_signature as read_file
from lightbox.engines.openvino.chosen import Chosen
from lightbox.engines.openvino.compiled import Compiled
from tfs_wire.dtypes import DT_STRING
from tfs_wire.messages import meta_graph_pb2
from tfs_wire.status import invalid


def open_onnx(file: Path, options: OpenOptions) -> Opened:
    """Load a file; raise StatusError where it is damaged, has strings, or OpenVINO cannot convert it."""
    try:
        signature = read_file(file)
    except (OSError, ValueError) as error:
        raise invalid(f"{file} cannot be read: {error}") from None
    if (name := _strings(signature)) is not None:
        raise invalid(f"{name!r} of {file} holds strings")
    graph = meta_graph_pb2.MetaGraphDef()
    graph.signature_def[SIGNATURE].CopyFrom(signature_def(signature))
    compiled = Compiled(str(file.parent), graph, SIGNATURE, options.hardware, is_exact=False, is_guarded=False)
    runner = Chosen(graph, {SIGNATURE: compiled}, {}, None)
    runner.warm(options.batches)
    return Opened(runner, {})


def _strings(signature: OnnxSignature) -> str | None:
    tensors = {**signature.inputs, **signature.outputs}
    return next((name for name, tensor in tensors.items() if tensor.dtype == DT_STRING), None)
