"""Media types in: the registry of request codecs, and which of them reads a body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from lightbox.codecs.base import Method, Parsed, RequestCodec, ResponseCodec
from lightbox.codecs.csv import CsvCodec
from lightbox.codecs.image import ImageBodyCodec, ImageCodec
from lightbox.codecs.json_body import JsonCodec
from lightbox.codecs.json_response import CsvAnswer, JsonAnswer, JsonLinesAnswer, JsonLinesDocument
from lightbox.codecs.media_type import best_match, parse_content_type
from lightbox.codecs.multipart import MultipartCodec, read_parts
from lightbox.codecs.npy import NpyAnswer, NpyCodec, NpzAnswer, OctetStreamAnswer
from lightbox.errors import BadRequest, MalformedBody, NotAcceptable, UnsupportedMediaType
from lightbox.images.decode import OriginalImages, is_image
from lightbox.request_context import RequestContext
from lightbox.settings import Settings

SHOWN_TYPES = (
    "application/x-image",
    "image/*",
    "application/json",
    "application/jsonlines",
    "application/jsons",
    "text/csv",
    "application/x-npy",
    "application/x-npz",
    "multipart/form-data",
)
"""What a 415 names; other names of the same are read too."""
MAYBE_IMAGE_TYPES = ("application/octet-stream", "application/x-www-form-urlencoded")
"""Taken for an image when the body begins like one. The second is what curl says when it is told nothing."""
CODECS: dict[str, ResponseCodec] = {
    codec.media_type: codec
    for codec in (JsonAnswer(), JsonLinesAnswer(), CsvAnswer(), NpyAnswer(), NpzAnswer(), OctetStreamAnswer())
}
"""The first one answers where the caller does not mind."""


class Codecs:
    """The codecs of both directions by media type; one for each worker process, safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self.images = images = ImageCodec(settings)
        self._image = ImageBodyCodec(images)
        self._json = JsonCodec(images, settings.max_text_mb)
        readers: tuple[RequestCodec, ...] = (
            self._image,
            self._json,
            CsvCodec(settings.max_text_mb),
            NpyCodec(settings.max_body_mb),
            MultipartCodec(images),
        )
        self._readers = {media_type: reader for reader in readers for media_type in reader.media_types}
        self._writers = codecs(settings.jsonlines)

    def negotiate(self, accept: str) -> ResponseCodec:
        """Return what writes for a raw Accept header; raise NotAcceptable when nothing is wanted that is written."""
        return negotiate(accept, self._writers)

    def parse(self, body: bytes, content_type: str, method: Method, context: RequestContext) -> Parsed:
        """Read a body as far as it goes without its signature; ``content_type`` is the raw header, "" without one.

        Without a Content-Type the body is an image if it begins like one, else JSON. Raises
        UnsupportedMediaType for a type that is not read, and whatever its codec raises.
        """
        context.memory.weigh(len(body))
        parsed = parse_content_type(content_type)
        codec = self._find(parsed.name, body)
        if method is not Method.PREDICT and codec is not self._json:
            came = parsed.name[:100] or "an image"
            raise BadRequest(f"tfs-method={method.value}: expected examples as application/json, got {came}")
        if parsed.name:
            return codec.parse(body, parsed, method, context)
        with _taken_for_json():
            found = codec.parse(body, parsed, method, context)
        return Parsed(_taken_for_json()(found.decode), found.signature)

    def originals(
        self, body: bytes, content_type: str, context: RequestContext, images: Sequence[bytes] = ()
    ) -> OriginalImages:
        """Return a request's images as the user's code sees them; nothing is read before they are asked for.

        They are ``images`` where decoding has given some, else a form's parts, else the body.
        """
        return self.images.originals(lambda: images or _image_bodies(body, content_type), context)

    def _find(self, name: str, body: bytes) -> RequestCodec:
        if not name:
            return self._image if is_image(body) else self._json
        if name.startswith("image/") or (name in MAYBE_IMAGE_TYPES and is_image(body)):
            return self._image
        if name not in self._readers:
            accepted = ", ".join(SHOWN_TYPES)
            raise UnsupportedMediaType(
                f"Content-Type: expected {accepted}, or an image as application/octet-stream; got {name[:100]!r}"
            )
        return self._readers[name]


@contextmanager
def _taken_for_json() -> Iterator[None]:
    """Say in an error that the body is read as JSON for want of a Content-Type."""
    try:
        yield
    except MalformedBody as error:
        raise MalformedBody(f"without a Content-Type a body that is no image is JSON: {error.message}") from error


def _image_bodies(body: bytes, content_type: str) -> Sequence[bytes]:
    parsed = parse_content_type(content_type)
    return (
        read_parts(body, parsed.parameters.get("boundary", ""))
        if parsed.name in MultipartCodec.media_types
        else (body,)
    )


def codecs(jsonlines: Literal["rows", "document"]) -> Mapping[str, ResponseCodec]:
    """Return the codecs by media type; ``jsonlines`` says what application/jsonlines is, LIGHTBOX_JSONLINES."""
    document = JsonLinesDocument()
    return CODECS if jsonlines == "rows" else CODECS | {document.media_type: document}


def negotiate(accept: str, codecs: Mapping[str, ResponseCodec] = CODECS) -> ResponseCodec:
    """Return the codec for a raw Accept header, "" without one; raise NotAcceptable when none is wanted."""
    media_type = best_match(accept, list(codecs))
    if media_type is None:
        raise NotAcceptable(f"Accept: this endpoint answers {', '.join(codecs)}; got {accept[:200]!r}")
    return codecs[media_type]


def check_single(codec: ResponseCodec, outputs: int) -> None:
    """Raise NotAcceptable if a media type that holds one output is to hold another number of them."""
    if codec.single and outputs != 1:
        raise NotAcceptable(
            f"Accept: {codec.media_type} holds one output and this model gives {outputs}; choose one with "
            "LIGHTBOX_OUTPUTS or outputs in code/lightbox.json, or accept application/json or application/x-npz"
        )
