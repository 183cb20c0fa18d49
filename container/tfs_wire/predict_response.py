"""Writing a PredictResponse from arrays, without filling a message value by value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfs_wire import tensor_proto
from tfs_wire.protobuf import Fragments, delimited, wrapped

_OUTPUTS, _MODEL_SPEC = 1, 2
_KEY, _VALUE = 1, 2


def serialize(outputs: Mapping[str, np.ndarray[Any, Any]], model_spec: bytes, as_content: bool = False) -> bytes:
    """Return the serialized response; ``model_spec`` is a serialized ModelSpec.

    Values are in the typed fields of each TensorProto, or in ``tensor_content`` with ``as_content``.
    """
    parts: Fragments = []
    for name, array in outputs.items():
        tensor = wrapped(_VALUE, tensor_proto.encode(array, as_content))
        parts += wrapped(_OUTPUTS, [delimited(_KEY, name.encode()), *tensor])
    parts.append(delimited(_MODEL_SPEC, model_spec))
    return b"".join(parts)
