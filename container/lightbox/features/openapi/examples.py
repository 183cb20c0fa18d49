"""Examples of requests: zeros of the signature's shapes, or a small grey image where a model takes pixels."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from lightbox.features.open_inference.tensors import described
from lightbox.images.probe import GREY_PNG
from lightbox.model.spec import SignatureSpec, TensorSpec, image_input

LARGEST = 100
"""Elements of all inputs; an example is to be read."""


def _sizes(spec: TensorSpec) -> list[int]:
    return [1 if size is None else size for size in spec.shape or (1,)]


def _is_shown(signature: SignatureSpec) -> bool:
    specs = signature.inputs.values()
    # Nothing tells what strings a model understands.
    return not any(spec.is_string for spec in specs) and sum(math.prod(_sizes(spec)) for spec in specs) <= LARGEST


def _zero(spec: TensorSpec) -> Any:
    return False if spec.dtype == "bool" else 0


def _nested(item: Any, sizes: Sequence[int]) -> Any:
    for size in reversed(sizes):
        item = [item] * size
    return item


def invocation(signature: SignatureSpec) -> Any:
    """Return the JSON of a request to /invocations, None where there is no short one."""
    picture = image_input(signature)
    if picture is not None and not picture.encoded:
        return {"instances": [{"b64": b64encode(GREY_PNG).decode()}]}
    if not _is_shown(signature):
        return None
    whole = {name: _nested(_zero(spec), _sizes(spec)) for name, spec in signature.inputs.items()}
    return {"inputs": next(iter(whole.values())) if len(whole) == 1 else whole}


def inference(signature: SignatureSpec) -> Any:
    """Return the JSON of a request of the Open Inference Protocol, None where there is no short one."""
    if not _is_shown(signature):
        return None
    inputs = [
        {key: described(spec)[key] for key in ("name", "datatype")}
        | {"shape": _sizes(spec), "data": [_zero(spec)] * math.prod(_sizes(spec))}
        for spec in signature.inputs.values()
    ]
    return {"inputs": inputs}
