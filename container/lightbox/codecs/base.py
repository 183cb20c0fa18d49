"""What codecs share: a parsed body, a response, and the two ways of a codec.

A codec is a class for the media types of ``media_types``: it reads bodies of them, writes responses of the first of
them, or does both, and describes them. ``codecs/__init__.py`` names all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from lightbox.codecs.media_type import ContentType
from lightbox.core.request_context import RequestContext
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, Method, ModelCall, Prediction, SignatureSpec
from lightbox.openapi.schemas import BINARY, Schema

if TYPE_CHECKING:
    from lightbox.codecs.options import CodecOptions
    from lightbox.openapi.models import DescribedModel


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


class Images(Protocol):
    """Decodes the images in bodies."""

    def decode(
        self, bodies: Sequence[bytes], signature: SignatureSpec, options: ModelOptions, context: RequestContext
    ) -> ModelCall:
        """Return the call of a model that takes images, with one encoded image or several."""
        ...

    def check_among(self, tensors: Iterable[Array], context: RequestContext, or_texts: bool = False) -> None:
        """Check the headers of whatever begins as an image among tensors of byte strings."""
        ...


class Codec(ABC):
    """Some media types, and what a body of them looks like."""

    media_types: ClassVar[tuple[str, ...]]
    """What a 415 and the OpenAPI document name."""
    synonyms: ClassVar[tuple[str, ...]] = ()
    """Other names of the same that are read too."""
    schema: ClassVar[Schema] = BINARY
    """A body, whatever the model, in OpenAPI."""

    def __init__(self, images: Images, options: CodecOptions) -> None:
        self._images = images
        self._options = options

    def components(self, models: Sequence[DescribedModel]) -> dict[str, Schema]:
        """Return what the forms of its bodies refer to, by name."""
        return {}


class Reader(Codec):
    """The way in of a codec."""

    of_images: ClassVar[bool] = False
    """Whether it reads images alone."""
    reads_examples: ClassVar[bool] = False
    """Whether it reads what classify and regress take."""

    @abstractmethod
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        """Read a body of one of the media types as far as it goes without the signature.

        Raises MalformedBody, InputMismatch, TooLarge and the like.
        """

    def request_schemas(self, models: Sequence[DescribedModel]) -> list[Schema]:
        """Return the forms that a body for one of these models may have."""
        return [self.schema]

    def example(self, model: DescribedModel) -> Any:
        """Return a body for a model, None where there is no short one."""
        return None


class Writer(Codec):
    """The way out of a codec; its responses are called by the first of the media types."""

    single: ClassVar[bool] = False
    """Whether the media type holds one output only."""
    compressible: ClassVar[bool] = True
    """Whether nginx may compress large responses."""
    headers: ClassVar[tuple[str, ...]] = ()
    """Headers that its responses have."""

    @abstractmethod
    def encode(self, prediction: Prediction) -> Response:
        """Return the response; raise NotAcceptable when the media type cannot hold it."""

    def response_schemas(self, models: Sequence[DescribedModel]) -> list[Schema]:
        """Return the forms that a response of one of these models may have."""
        return [self.schema]
