"""Examples of tensors: zeros of a signature's shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lightbox.model.spec import SignatureSpec, TensorSpec

LARGEST = 100
"""Elements of all inputs; an example is to be read."""


def sizes(spec: TensorSpec) -> list[int]:
    """Return the shape of an example."""
    return [1 if size is None else size for size in spec.shape or (1,)]


def is_shown(signature: SignatureSpec) -> bool:
    """Tell whether there is a short example."""
    specs = signature.inputs.values()
    # Nothing tells what strings a model understands.
    return not any(spec.is_string for spec in specs) and sum(math.prod(sizes(spec)) for spec in specs) <= LARGEST


def zero(spec: TensorSpec) -> Any:
    """Return an element."""
    return False if spec.dtype == "bool" else 0


def nested(item: Any, shape: Sequence[int]) -> Any:
    """Return nested lists of a shape, all of whose elements are ``item``."""
    for size in reversed(shape):
        item = [item] * size
    return item
