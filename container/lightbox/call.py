"""What a request asks, whatever protocol it came by: the pipeline's one argument."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lightbox.codecs.base import DecodedRequest, Parsed, Prediction, Response
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec
from lightbox.request_context import RequestContext
from lightbox.user_code.handlers import Request
from lightbox.user_code.loader import Function

if TYPE_CHECKING:
    from lightbox.contents import Invocation

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
FindSignature = Callable[[], SignatureSpec]
"""Looks up the signature that a call names, or the default one. Raises as Transport.signature does."""
CROP = "tfs-crop"
OUTPUTS = "tfs-outputs"
"""Its value holds commas."""
KNOWN_PAIRS = (
    "tfs-model-name",
    "tfs-model-version",
    "tfs-method",
    "tfs-signature-name",
    "tfs-transport",
    CROP,
    OUTPUTS,
)
"""The custom attributes that Lightbox reads; those that begin otherwise are for handlers, and for others."""


def meant(name: str) -> str | None:
    """Return the pair of KNOWN_PAIRS that a name is close to."""
    full = "tfs-" + name[:100].lower().replace("_", "-").removeprefix("tfs-")
    return next(iter(difflib.get_close_matches(full, KNOWN_PAIRS, n=1, cutoff=0.7)), None)


class Writer(Protocol[R_co]):
    """Makes the response to one call, in the form that its protocol wants."""

    def check(self, outputs: int) -> None:
        """Raise NotAcceptable where the response cannot hold so many outputs."""
        ...

    def write(self, prediction: Prediction, signature: SignatureSpec) -> R_co:
        """Return the response that holds the model's outputs."""
        ...

    def finish(
        self, postprocess: Function, outputs: Mapping[str, Array], shown: Request, signature: SignatureSpec
    ) -> R_co:
        """Return the response that the user's postprocess gives."""
        ...


class Content(Protocol[R_co]):
    """What a request carries, and how it is answered: bodies of media types, or tensors. ``R`` is the response."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that the request names; empty for those that the model's options name."""
        ...

    def size(self, context: RequestContext) -> int:
        """Return the bytes that the content holds in memory until the model has answered."""
        ...

    def parse(self, context: RequestContext) -> Parsed:
        """Read the content as far as it goes without the signature. Raises UnsupportedMediaType and MalformedBody."""
        ...

    def writer(self, by_user_code: bool) -> Writer[R_co]:
        """Return what writes the response; NotAcceptable where nothing can, unless the user's code writes it."""
        ...

    def has_images(self, signature: SignatureSpec) -> bool:
        """Tell whether the user's preprocess is to make the inputs."""
        ...

    def names_outputs_of(self, signature: SignatureSpec) -> bool:
        """Tell whether the request names the model's own outputs, which the user's postprocess is not asked about."""
        ...

    def shown(
        self, call: Call[Any], request: DecodedRequest, options: ModelOptions, context: RequestContext
    ) -> Request:
        """Return what Lightbox's handler API shows of the request."""
        ...

    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Invocation] | None:
        """Return the bodies that a handler of AWS's API is asked about, one by one; None where it is not asked."""
        ...

    def joined(self, responses: Sequence[Response], find: FindSignature) -> R_co:
        """Return the response that holds a handler's answers to these bodies."""
        ...


@dataclass(frozen=True)
class Call(Generic[R_co]):
    """One request. What is None takes the configured default.

    ``outputs`` are the names of those that the caller wants. ``attributes`` are the pairs of the custom attributes,
    ``custom_attributes`` is the header as it came.
    """

    content: Content[R_co]
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    transport: str | None = None
    outputs: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    custom_attributes: str | None = None

    def carrying(self, content: Content[S]) -> Call[S]:
        """Return the same call with another content, which gets all outputs."""
        return Call(
            content,
            self.model,
            self.version,
            self.signature,
            self.transport,
            attributes=self.attributes,
            custom_attributes=self.custom_attributes,
        )
