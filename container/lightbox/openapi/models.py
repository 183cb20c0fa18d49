"""A model as the document describes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec, TensorSpec

LARGEST_EXAMPLE = 100
"""Elements of all inputs; an example is to be read."""


@dataclass(frozen=True)
class DescribedModel:
    """A model; with ``has_default`` the first of ``signatures`` is the default one.

    With ``reads_any_body`` user code reads bodies of predictions, and with ``writes_any_body`` it writes responses, of
    any form.
    """

    name: str
    signatures: tuple[SignatureSpec, ...]
    has_default: bool
    options: ModelOptions
    reads_any_body: bool = False
    writes_any_body: bool = False

    @property
    def default(self) -> SignatureSpec | None:
        """The signature of requests that name none, None where they must name one."""
        return self.signatures[0] if self.has_default else None

    @property
    def has_one_output(self) -> bool:
        """Whether media types that hold one output can carry a response."""
        return any(len(self.outputs(signature)) == 1 for signature in self.signatures)

    def outputs(self, signature: SignatureSpec) -> dict[str, TensorSpec]:
        """Return the outputs that a response has, where the request names none."""
        wanted = self.options.outputs
        return {name: spec for name, spec in signature.outputs.items() if not wanted or name in wanted}


def zeros(signature: SignatureSpec) -> dict[str, Array] | None:
    """Return the inputs of an example, with open dimensions of 1; None if there is no short one."""
    arrays = {}
    for name, spec in signature.inputs.items():
        if spec.is_string:  # the strings that a model accepts are unknown
            return None
        shape = [1 if size is None else size for size in spec.shape or (1,)]
        arrays[name] = np.zeros(shape, bool if spec.dtype == "bool" else int)
    return arrays if sum(array.size for array in arrays.values()) <= LARGEST_EXAMPLE else None
