"""Signatures as a model server describes them."""

from __future__ import annotations

from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.model_runtime.wire.dtypes import OWN_ROWS, numpy_name
from lightbox.model_runtime.wire.messages import meta_graph_pb2


def signature_spec(model: str, version: int, name: str, signature: meta_graph_pb2.SignatureDef) -> SignatureSpec:
    """Return a signature of a version of a model, its tensors in the order of their names."""
    return SignatureSpec(
        model=model,
        version=version,
        name=name,
        inputs={key: _tensor_spec(key, info) for key, info in sorted(signature.inputs.items())},
        outputs={key: _tensor_spec(key, info) for key, info in sorted(signature.outputs.items())},
    )


def _tensor_spec(name: str, info: meta_graph_pb2.TensorInfo) -> TensorSpec:
    dtype, dims = numpy_name(info.dtype), info.tensor_shape.dim
    if info.tensor_shape.unknown_rank:
        return TensorSpec(name, dtype, None)
    shape = tuple(None if dim.size < 0 else int(dim.size) for dim in dims)
    return TensorSpec(name, dtype, shape, has_own_rows=bool(dims) and dims[0].name == OWN_ROWS)
