"""One inference request of the protocol, whether it came by REST or gRPC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightbox.errors import MalformedBody, ModelNotFound, TooLarge
from lightbox.model_spec import Array
from lightbox.protocols.kserve.sagemaker_headers import SageMakerHeaders
from lightbox.tensor_request import TensorRequest

EXTENSIONS = ("binary_tensor_data", "model_repository")
PLATFORM = "tensorflow_savedmodel"
SERVER_NAME = "lightbox"
MAX_NAMED = 1024
"""Inputs, outputs and parameters that a request may have, each; no model of TensorFlow Serving's has as many."""


@dataclass(frozen=True)
class InferRequest:
    """Tensors in, names of the outputs that are wanted, and what the caller attached.

    ``binary`` tells for each named output whether it is wanted as a blob; ``binary_default`` for the others.
    """

    inputs: Mapping[str, Array]
    outputs: tuple[str, ...] = ()
    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    binary: Mapping[str, bool] = field(default_factory=dict)
    binary_default: bool = False

    def tensors(self, model: str | None, version: str, headers: SageMakerHeaders) -> TensorRequest:
        """Return what the pipeline answers; ``version`` is what the path or message names, "" for none."""
        attributes = headers.attributes
        parameters = {name: _text(value) for name, value in self.parameters.items()}
        pairs = (f"{name}={value}" for name, value in parameters.items())
        return TensorRequest(
            inputs=self.inputs,
            outputs=self.outputs,
            attributes={**attributes, **parameters},
            custom_attributes=",".join(filter(None, (headers.custom_attributes, *pairs))) or None,
            model=model or None,
            version=version_number(version) if version else headers.version,
            signature=headers.signature,
            transport=attributes.get("tfs-transport") or None,
        )


def version_number(text: str) -> int | None:
    """Return the version that a path or message names, None for the newest; raise ModelNotFound for no number."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ModelNotFound(f"version: expected a whole number, got {text[:40]!r}")
    return int(text)


def check_count(count: int, what: str) -> None:
    """Raise TooLarge for more inputs, outputs or parameters than a request may have; it costs no look at them."""
    if count > MAX_NAMED:
        raise TooLarge(f"{what}: expected at most {MAX_NAMED}, got {count}")


def once(names: Iterable[str], what: str) -> None:
    """Raise MalformedBody when a name comes twice; takes time in proportion to their number."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise MalformedBody(f"{what}: {', '.join(twice)[:200]} is there more than once")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
