"""Requests of the protocol, in JSON and in gRPC's messages alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightbox.base.error_texts import echo
from lightbox.base.errors import BadRequest, MalformedBody, ModelNotFound, TooLarge
from lightbox.base.request_context import Header
from lightbox.codecs import Codecs
from lightbox.core.attributes import CUSTOM_ATTRIBUTES, CustomAttributes
from lightbox.core.request import ByteStrings, Call, TensorResponse, Tensors
from lightbox.model.spec import Array, Method

MAX_NAMED = 1024
"""Most inputs, outputs and parameters of a request, each; models of TensorFlow Serving have fewer."""


def read_attributes(header: Header) -> CustomAttributes:
    """Return the custom attributes of a request. Raises BadRequest for unsupported ones."""
    attributes = CustomAttributes.read(header(CUSTOM_ATTRIBUTES))
    if attributes.method is not Method.PREDICT:
        method = attributes.method.value
        raise BadRequest(
            f"tfs-method: this protocol supports predict only; /invocations takes {method} in TensorFlow Serving's JSON"
        )
    _ = attributes.version
    return attributes


@dataclass(frozen=True)
class InferRequest:
    """Input tensors, the names of the wanted outputs, and the caller's parameters.

    ``binary`` says for each named output whether to return it as a blob; ``binary_default`` for the others. ``classes``
    is the number of classes of an output, in place of its numbers.
    """

    inputs: Mapping[str, Array | ByteStrings]
    outputs: tuple[str, ...] = ()
    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    binary: Mapping[str, bool] = field(default_factory=dict)
    binary_default: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)

    def call(
        self, codecs: Codecs, model: str | None, version: str, attributes: CustomAttributes
    ) -> Call[TensorResponse]:
        """Return the pipeline's call; ``version`` is the one in the path or message, "" for none."""
        parameters = {name: _text(value) for name, value in self.parameters.items()}
        pairs = (f"{name}={value}" for name, value in parameters.items())
        text = ",".join(filter(None, (attributes.text, *pairs))) or None
        return Call(
            Tensors(codecs, self.inputs, self.outputs),
            model or None,
            version_number(version) if version else attributes.version,
            attributes.signature,
            attributes.transport,
            attributes=CustomAttributes({**attributes.pairs, **parameters}, text),
        )


def version_number(text: str) -> int | None:
    """Return the version in a path or message, None for the newest; raise ModelNotFound if it is not a number."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ModelNotFound(f"version: expected a whole number, got {text[:40]!r}")
    return int(text)


def check_count(count: int, what: str) -> None:
    """Raise TooLarge for too many inputs, outputs or parameters, before they are read."""
    if count > MAX_NAMED:
        raise TooLarge(f"{what}: expected at most {MAX_NAMED}, got {count}")


def once(names: Iterable[str], what: str) -> None:
    """Raise MalformedBody for a repeated name, in linear time."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise MalformedBody(f"{what}: {echo(', '.join(twice))} appears more than once")


def _text(value: Any) -> str:
    try:
        return str(value).lower() if isinstance(value, bool) else str(value)
    except RecursionError:
        raise MalformedBody("parameters: a value is nested too deep") from None
