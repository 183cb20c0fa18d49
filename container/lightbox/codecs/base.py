"""The base classes of codecs: a parsed body, a response, a reader and a writer.

A codec is a class for its ``media_types``: it reads bodies of them, writes responses of the first one, or both, and
describes them for OpenAPI. ``codecs/__init__.py`` lists all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from lightbox.base.request_context import RequestContext
from lightbox.codecs.media_type import ContentType
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, Method, ModelCall, Prediction, SignatureSpec
from lightbox.openapi.schemas import BINARY, Schema

if TYPE_CHECKING:
    from lightbox.codecs.codec_options import CodecOptions
    from lightbox.openapi.models import DescribedModel

NEEDS_NAMES = (
    "shows classes or objects, and this response has none; set labels, top_k or detections in code/lightbox.json, and "
    "name no outputs"
)


@dataclass(frozen=True)
class Parsed:
    """A body that is parsed as far as possible without a signature; it may name the signature.

    ``decode`` makes the inputs; it times the stages decode and preprocess, and raises InputMismatch and others.
    """

    decode: Callable[[SignatureSpec, ModelOptions], ModelCall]
    signature: str | None = None


@dataclass(frozen=True)
class Response:
    """A body, its content type, and further headers."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Images(Protocol):
    """Decodes the images of bodies."""

    def decode(
        self, bodies: Sequence[bytes], signature: SignatureSpec, options: ModelOptions, context: RequestContext
    ) -> ModelCall:
        """Return the call of a model that takes images, with one or several encoded images."""
        ...

    def check_among(self, tensors: Iterable[Array], context: RequestContext, or_texts: bool = False) -> None:
        """Check the headers of all byte strings that begin like an image."""
        ...


class Codec(ABC):
    """Some media types, and the form of their bodies."""

    media_types: ClassVar[tuple[str, ...]]
    """The media types, as a 415 and the OpenAPI document list them."""
    synonyms: ClassVar[tuple[str, ...]] = ()
    """Further names of the same types."""
    schema: ClassVar[Schema] = BINARY
    """The OpenAPI schema of a body of any model."""

    def __init__(self, images: Images, options: CodecOptions) -> None:
        self._images = images
        self._options = options

    def components(self, models: Sequence[DescribedModel]) -> dict[str, Schema]:
        """Return the schemas that the forms of its bodies refer to, by name."""
        return {}


class Reader(Codec):
    """A codec that reads."""

    of_images: ClassVar[bool] = False
    """Whether it reads images only."""
    reads_examples: ClassVar[bool] = False
    """Whether it reads the bodies of classify and regress."""

    @abstractmethod
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        """Parse a body of one of the media types as far as possible without a signature.

        Raises MalformedBody, InputMismatch, TooLarge and others.
        """

    def request_schemas(self, models: Sequence[DescribedModel]) -> list[Schema]:
        """Return the schemas of a body for one of these models."""
        return [self.schema]

    def example(self, model: DescribedModel) -> Any:
        """Return an example body for a model, None if there is no short one."""
        return None


class Writer(Codec):
    """A codec that writes; its responses have the first of the media types."""

    single: ClassVar[bool] = False
    """Whether the media type holds a single output."""
    headers: ClassVar[tuple[str, ...]] = ()
    """Headers of its responses."""
    needs_names: ClassVar[bool] = False
    """Whether it holds classes or objects alone, with boxes in pixels of images."""
    draws: ClassVar[bool] = False
    """Whether it needs the image."""

    @abstractmethod
    def encode(self, prediction: Prediction) -> Response:
        """Return the response; raise NotAcceptable when the media type cannot hold it."""

    def response_schemas(self, models: Sequence[DescribedModel]) -> list[Schema]:
        """Return the schemas of a response of one of these models."""
        return [self.schema]
