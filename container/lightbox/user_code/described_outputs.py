"""The default outputs of a request of tensors, if user code writes the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightbox.model.spec import Array, SignatureSpec, TensorSpec
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.handlers import RESPONSE_OUTPUT, LightboxHandlers


@dataclass(frozen=True)
class DescribedOutputs:
    """``outputs`` by name, and the functions of user code that return them; empty if the model itself does."""

    outputs: Mapping[str, TensorSpec]
    functions: tuple[str, ...] = ()


class HandlerOutputs:
    """Caches the last outputs of each model's ``postprocess``, the only source of their names and dtypes."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, TensorSpec]] = {}

    def note(self, model: str, outputs: Mapping[str, Array]) -> None:
        """Cache the outputs of a response: the ranks, as sizes may change."""
        self._given[model] = {name: _spec(name, array) for name, array in outputs.items()}

    def forget(self, model: str) -> None:
        """Drop a model's outputs: another model, or other code, may get its name."""
        self._given.pop(model, None)

    def describe(self, signature: SignatureSpec, handlers: AwsHandlers | LightboxHandlers) -> DescribedOutputs:
        """Return the outputs of a model; none before the first response of its ``postprocess``."""
        if isinstance(handlers, AwsHandlers):
            if signature.image is None:  # its user code handles only encoded images
                return DescribedOutputs(signature.outputs)
            pair = ("input_handler", "output_handler")
            outputs = {RESPONSE_OUTPUT: TensorSpec(RESPONSE_OUTPUT, "string", (None,))}
            return DescribedOutputs(outputs, pair if handlers.handler is None else ("handler",))
        if handlers.postprocess is None:
            return DescribedOutputs(signature.outputs)
        return DescribedOutputs(self._given.get(signature.model, {}), ("postprocess",))


def _spec(name: str, array: Array) -> TensorSpec:
    return TensorSpec(name, "string" if array.dtype.hasobject else array.dtype.name, (None,) * array.ndim)
