"""Media types in: the registry of request codecs, and which of them reads a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from lightbox.codecs.base import AnswerCodec, DecodedRequest, Method, RequestCodec, Target
from lightbox.codecs.csv import CsvCodec
from lightbox.codecs.image import ImageBodyCodec, ImageCodec
from lightbox.codecs.json_body import JsonCodec
from lightbox.codecs.json_response import CsvAnswer, JsonAnswer, JsonLinesAnswer, JsonLinesDocument
from lightbox.codecs.media_type import best_match, parse_content_type
from lightbox.codecs.multipart import MultipartCodec, read_parts
from lightbox.codecs.npy import NpyAnswer, NpyCodec, NpzAnswer, OctetStreamAnswer
from lightbox.errors import BadRequest, MalformedBody, NotAcceptable, UnsupportedMediaType
from lightbox.images.decode import is_image
from lightbox.images.originals import OriginalImages
from lightbox.request_context import RequestClock
from lightbox.settings import Settings

IMAGE_TYPES = ("application/x-image", "image/*")
JSON_TYPES = ("application/json", "application/jsonlines", "application/jsons")
OTHER_JSON_TYPES = ("application/jsonl", "application/x-jsonlines", "application/ndjson", "application/x-ndjson")
CSV_TYPES = ("text/csv",)
NPY_TYPES = ("application/x-npy", "application/x-npz")
OTHER_NPY_TYPES = ("application/zip",)
FORM_TYPES = ("multipart/form-data",)
MAYBE_IMAGE_TYPES = ("application/octet-stream", "application/x-www-form-urlencoded")
"""Taken for an image when the body begins like one. The second is what curl says when it is told nothing."""
CODECS: dict[str, AnswerCodec] = {
    codec.media_type: codec
    for codec in (JsonAnswer(), JsonLinesAnswer(), CsvAnswer(), NpyAnswer(), NpzAnswer(), OctetStreamAnswer())
}
"""The first one answers where the caller does not mind."""


class RequestCodecs:
    """Finds the codec for a Content-Type; one for each worker process, safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self.images = images = ImageCodec(settings)
        self._image = ImageBodyCodec(images)
        self._json = JsonCodec(images, settings.max_text_mb)
        self._codecs: dict[str, RequestCodec] = {
            "application/x-image": self._image,
            **dict.fromkeys(JSON_TYPES + OTHER_JSON_TYPES, self._json),
            **dict.fromkeys(CSV_TYPES, CsvCodec(settings.max_text_mb)),
            **dict.fromkeys(NPY_TYPES + OTHER_NPY_TYPES, NpyCodec(settings.max_body_mb)),
            **dict.fromkeys(FORM_TYPES, MultipartCodec(images)),
        }

    def decode(self, body: bytes, content_type: str, target: Target) -> DecodedRequest:
        """Return the inputs in ``body``; ``content_type`` is the raw header, "" without one.

        Without a Content-Type the body is an image if it begins like one, else JSON. Raises
        UnsupportedMediaType for a type that is not read, and whatever its codec raises.
        """
        target.clock.memory.weigh(len(body))
        parsed = parse_content_type(content_type)
        codec = self._find(parsed.name, body)
        if target.method is not Method.PREDICT and codec is not self._json:
            came = parsed.name[:100] or "an image"
            raise BadRequest(f"tfs-method={target.method.value}: expected examples as application/json, got {came}")
        try:
            return codec.decode(body, parsed, target)
        except MalformedBody as error:
            if parsed.name:
                raise
            raise MalformedBody(f"without a Content-Type a body that is no image is JSON: {error.message}") from error

    def originals(
        self, body: bytes, content_type: str, clock: RequestClock, images: Sequence[bytes] = ()
    ) -> OriginalImages:
        """Return a request's images as the user's code sees them; nothing is read before they are asked for.

        They are ``images`` where decoding has given some, else a form's parts, else the body.
        """
        return self.images.originals(lambda: images or _image_bodies(body, content_type), clock)

    def _find(self, name: str, body: bytes) -> RequestCodec:
        if not name:
            return self._image if is_image(body) else self._json
        if name.startswith("image/") or (name in MAYBE_IMAGE_TYPES and is_image(body)):
            return self._image
        if name not in self._codecs:
            accepted = ", ".join(IMAGE_TYPES + JSON_TYPES + CSV_TYPES + NPY_TYPES + FORM_TYPES)
            raise UnsupportedMediaType(
                f"Content-Type: expected {accepted}, or an image as application/octet-stream; got {name[:100]!r}"
            )
        return self._codecs[name]


def _image_bodies(body: bytes, content_type: str) -> Sequence[bytes]:
    parsed = parse_content_type(content_type)
    return read_parts(body, parsed.parameters.get("boundary", "")) if parsed.name in FORM_TYPES else (body,)


def codecs(jsonlines: Literal["rows", "document"]) -> Mapping[str, AnswerCodec]:
    """Return the codecs by media type; ``jsonlines`` says what application/jsonlines is, LIGHTBOX_JSONLINES."""
    document = JsonLinesDocument()
    return CODECS if jsonlines == "rows" else CODECS | {document.media_type: document}


def negotiate(accept: str, codecs: Mapping[str, AnswerCodec] = CODECS) -> AnswerCodec:
    """Return the codec for a raw Accept header, "" without one; raise NotAcceptable when none is wanted."""
    media_type = best_match(accept, list(codecs))
    if media_type is None:
        raise NotAcceptable(f"Accept: this endpoint answers {', '.join(codecs)}; got {accept[:200]!r}")
    return codecs[media_type]


def check_single(codec: AnswerCodec, outputs: int) -> None:
    """Raise NotAcceptable if a media type that holds one output is to hold another number of them."""
    if codec.single and outputs != 1:
        raise NotAcceptable(
            f"Accept: {codec.media_type} holds one output and this model gives {outputs}; choose one with "
            "LIGHTBOX_OUTPUTS or outputs in code/lightbox.json, or accept application/json or application/x-npz"
        )
