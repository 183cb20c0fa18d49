"""Files of other formats than SavedModel, for which OpenVINO's results are the reference."""

from __future__ import annotations

from lightbox.engines.engine import Opened, OpenOptions
from lightbox.engines.openvino.compiled import Compiled
from lightbox.engines.openvino.fallback import OpenVinoWithFallback
from lightbox.formats import ModelFile
from lightbox.formats.signature import SIGNATURE, FileSignature, signature_def
from lightbox.tfs_wire.dtypes import DT_STRING
from lightbox.tfs_wire.messages import meta_graph_pb2
from lightbox.tfs_wire.status import invalid


def open_file(file: ModelFile, options: OpenOptions) -> Opened:
    """Load a file; raise StatusError if it is damaged, has strings, or OpenVINO cannot convert it."""
    try:
        signature = file.signature()
    except (OSError, ValueError) as error:
        raise invalid(f"{file.path} cannot be read: {error}") from None
    if (name := _strings(signature)) is not None:
        raise invalid(f"{name!r} of {file.path} holds strings")
    graph = meta_graph_pb2.MetaGraphDef()
    graph.signature_def[SIGNATURE].CopyFrom(signature_def(signature))
    compiled = Compiled(str(file.place()), graph, SIGNATURE, options.hardware, is_exact=False, is_guarded=False)
    runner = OpenVinoWithFallback(graph, {SIGNATURE: compiled}, {}, None)
    runner.warm(options.batches)
    return Opened(runner, {})


def _strings(signature: FileSignature) -> str | None:
    tensors = {**signature.inputs, **signature.outputs}
    return next((name for name, tensor in tensors.items() if tensor.dtype == DT_STRING), None)
