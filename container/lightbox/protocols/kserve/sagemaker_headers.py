"""SageMaker's headers on requests of the Open Inference Protocol: they mean what they mean on /invocations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lightbox.codecs.base import Method
from lightbox.errors import BadRequest
from lightbox.protocols.custom_attributes import (
    CUSTOM_ATTRIBUTES,
    TARGET_MODEL,
    parse_custom_attributes,
    parse_method,
    parse_version,
)


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
        raise BadRequest(f"tfs-method: this protocol predicts; {method.value} is answered on /invocations")
    version = parse_version(attributes.get("tfs-model-version"))
    return SageMakerHeaders(text, header(TARGET_MODEL) or "", attributes, version)
