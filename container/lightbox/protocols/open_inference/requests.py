"""SageMaker's headers on requests of the Open Inference Protocol: they mean what they mean on /invocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightbox.call import Call
from lightbox.codecs import Codecs
from lightbox.codecs.base import Method
from lightbox.contents import TensorRequest, TensorResponse
from lightbox.errors import BadRequest, MalformedBody, ModelNotFound, TooLarge
from lightbox.model.spec import Array
from lightbox.protocols.http import (
    CUSTOM_ATTRIBUTES,
    TARGET_MODEL,
    parse_custom_attributes,
    parse_method,
    parse_version,
)

EXTENSIONS = ("binary_tensor_data", "model_repository")
PLATFORM = "tensorflow_savedmodel"
SERVER_NAME = "lightbox"
MAX_NAMED = 1024
"""Inputs, outputs and parameters that a request may have, each; no model of TensorFlow Serving's has as many."""


@dataclass(frozen=True)
class SageMakerHeaders:
    """Custom attributes, raw and as pairs, and the target model; a path or message that names a version wins."""

    custom_attributes: str = ""
    target_model: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None

    @property
    def signature(self) -> str | None:
        """The signature that is asked for, None for the default one."""
        return self.attributes.get("tfs-signature-name") or None


def read_headers(header: Callable[[str], str | None]) -> SageMakerHeaders:
    """Return the headers of a request; ``header`` looks one up. Raises BadRequest for what cannot be heeded."""
    text = header(CUSTOM_ATTRIBUTES) or ""
    attributes = parse_custom_attributes(text)
    method = parse_method(attributes.get("tfs-method"))
    if method is not Method.PREDICT:
        raise BadRequest(f"tfs-method: this protocol predicts; {method.value} is outcome on /invocations")
    version = parse_version(attributes.get("tfs-model-version"))
    return SageMakerHeaders(text, header(TARGET_MODEL) or "", attributes, version)


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

    def call(self, codecs: Codecs, model: str | None, version: str, headers: SageMakerHeaders) -> Call[TensorResponse]:
        """Return what the pipeline answers; ``version`` is what the path or message names, "" for none."""
        attributes = headers.attributes
        parameters = {name: _text(value) for name, value in self.parameters.items()}
        pairs = (f"{name}={value}" for name, value in parameters.items())
        return Call(
            TensorRequest(codecs, self.inputs, self.outputs),
            model=model or None,
            version=version_number(version) if version else headers.version,
            signature=headers.signature,
            transport=attributes.get("tfs-transport") or None,
            attributes={**attributes, **parameters},
            custom_attributes=",".join(filter(None, (headers.custom_attributes, *pairs))) or None,
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
