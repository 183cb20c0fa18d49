"""What codecs share: a parsed body, a response, and the two ways of a codec.

A codec is a class for the media types of ``media_types``: it reads bodies of them, writes responses of the first of
them, or does both. ``codecs/__init__.py`` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from lightbox.codecs.media_type import ContentType
from lightbox.core.request_context import RequestContext
from lightbox.model.call import Method, ModelCall, Prediction
from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec


@dataclass(frozen=True)
class Parsed:
    """A body that is read as far as it goes without its signature, whose name it may give.

    ``decode`` makes inputs of it; it times the stages decode and preprocess, and raises InputMismatch and the like.
    """

    decode: Callable[[SignatureSpec, ModelOptions], ModelCall]
    signature: str | None = None


@dataclass(frozen=True)
class Response:
    """A body, its content type, and what else its headers tell."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Reader(Protocol):
    """The way in of a codec. Raises MalformedBody, InputMismatch, TooLarge and the like."""

    media_types: ClassVar[tuple[str, ...]]

    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        """Read a body of one of the media types as far as it goes without the signature."""
        ...


@runtime_checkable
class Writer(Protocol):
    """The way out of a codec. ``single`` says that the media type holds one output only."""

    media_types: ClassVar[tuple[str, ...]]
    """The first is what responses are called."""
    single: ClassVar[bool]

    def encode(self, prediction: Prediction) -> Response:
        """Return the response; raise NotAcceptable when the media type cannot hold it."""
        ...


Codec = Reader | Writer
