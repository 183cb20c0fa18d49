"""All codecs by media type: they read bodies and write responses.

``codec_classes`` imports the codecs. The supervisor stays small: it needs COMPRESSIBLE_TYPES alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lightbox.base.errors import BadRequest, ImageUndecodable, MalformedBody, NotAcceptable, UnsupportedMediaType
from lightbox.base.request_context import RequestContext
from lightbox.codecs.base import NEEDS_NAMES, Parsed, Reader, Writer
from lightbox.codecs.media_type import best_match, parse_content_type
from lightbox.images.foreign import file_format
from lightbox.model.spec import Method

if TYPE_CHECKING:
    from lightbox.codecs.codec_options import CodecOptions
    from lightbox.images.decode import OriginalImages

COMPRESSIBLE_TYPES = (
    "application/json",
    "application/jsonlines",
    "text/csv",
    "application/x-npy",
    "application/x-npz",
    "application/octet-stream",
    "application/coco+json",
)
"""Media types of responses that nginx may compress."""


def codec_classes() -> tuple[type[Reader] | type[Writer], ...]:
    """Return the codecs; the first one that writes is the default for responses."""
    from lightbox.codecs.coco import CocoWriter
    from lightbox.codecs.csv import CsvCodec
    from lightbox.codecs.drawn import JpegWriter, PngWriter
    from lightbox.codecs.image import ImageBodyCodec
    from lightbox.codecs.json_body import JsonLinesReader, JsonReader
    from lightbox.codecs.json_text import JsonLinesWriter, JsonWriter
    from lightbox.codecs.multipart import MultipartCodec
    from lightbox.codecs.npy import NpyCodec, NpzCodec, OctetStreamWriter

    return (
        ImageBodyCodec,
        JsonReader,
        JsonWriter,
        JsonLinesReader,
        JsonLinesWriter,
        CsvCodec,
        NpyCodec,
        NpzCodec,
        OctetStreamWriter,
        MultipartCodec,
        CocoWriter,
        JpegWriter,
        PngWriter,
    )


CURL_TYPE = "application/x-www-form-urlencoded"
MAYBE_IMAGE_TYPES = ("application/octet-stream", CURL_TYPE, "binary/octet-stream", "file-path/raw-bytes")
"""With these types a body is an image if it begins like one, or like a file of another format. The second one is
curl's default, the third that of S3, the last that of the SageMaker SDK's DataSerializer."""


_CURL_HINT = "; curl -d removes the line breaks of a file: use --data-binary @FILE"


class Codecs:
    """The codecs by media type. One instance per worker process, safe to use from several threads."""

    def __init__(self, options: CodecOptions, alone: Callable[[], bool] = lambda: True) -> None:
        """``alone`` returns whether this process works on a single request."""
        from lightbox.codecs.image import ImageCodec

        self.images = images = ImageCodec(options, alone)
        codecs = [codec(images, options) for codec in codec_classes()]
        self.readers = [codec for codec in codecs if isinstance(codec, Reader)]
        self._readers = {name: codec for codec in self.readers for name in (*codec.media_types, *codec.synonyms)}
        self._types = {name: parse_content_type(name) for name in self._readers}
        """The common case: a media type without parameters."""
        self._image, self._json = self._readers["application/x-image"], self._readers["application/json"]
        self.writers = {codec.media_types[0]: codec for codec in codecs if isinstance(codec, Writer)}
        """The codecs that write responses, by media type."""
        self._servable = tuple(self.writers)
        self._servable_without_names = tuple(name for name, one in self.writers.items() if not one.needs_names)

    def negotiate(self, accept: str, has_names: bool = True) -> Writer:
        """Return the codec for a raw Accept header, "" if absent; raise NotAcceptable if there is none.

        Only an answer that ``has_names`` may be of a type that needs classes or objects.
        """
        if not accept:
            return next(iter(self.writers.values()))
        media_type = best_match(accept, self._servable if has_names else self._servable_without_names)
        if media_type is not None:
            return self.writers[media_type]
        if (named := best_match(accept, self._servable)) is not None:
            raise NotAcceptable(f"Accept: {named} {NEEDS_NAMES}")
        raise NotAcceptable(f"Accept: this endpoint can return {', '.join(self.writers)}; got {accept[:200]!r}")

    def parse(self, body: bytes, content_type: str, method: Method, context: RequestContext) -> Parsed:
        """Parse a body as far as possible without a signature; ``content_type`` is the raw header, "" if absent.

        Without a Content-Type the body is an image if it begins like one, else JSON. Raises UnsupportedMediaType, and
        as the codec does.
        """
        context.memory.weigh(len(body))
        parsed = self._types.get(content_type) or parse_content_type(content_type)
        codec = self._find(parsed.name, body)
        if method is not Method.PREDICT and not codec.reads_examples:
            came = parsed.name[:100] or "an image"
            raise BadRequest(f"tfs-method={method.value}: expected examples as application/json, got {came}")
        if parsed.name not in ("", CURL_TYPE):
            return codec.parse(body, parsed, method, context)
        with _hinted(parsed.name):
            found = codec.parse(body, parsed, method, context)
        return Parsed(_hinted(parsed.name)(found.decode), found.signature)

    def is_one_image(self, body: bytes, content_type: str) -> bool:
        """Return whether a body is read as a single image."""
        with suppress(UnsupportedMediaType):
            return self._find(parse_content_type(content_type).name, body) is self._image
        return False

    def originals(
        self, body: bytes, content_type: str, context: RequestContext, images: Sequence[bytes] = ()
    ) -> OriginalImages:
        """Return a request's images for user code; nothing is read before they are used.

        They are ``images`` if decoding gave some, else the parts of a form, else the body.
        """
        return self.images.originals(lambda: images or _image_bodies(body, content_type, context), context)

    def _find(self, name: str, body: bytes) -> Reader:
        from lightbox.images.decode import is_image

        is_file = is_image(body) or file_format(body) is not None  # the error names a file's format
        if not name:
            return self._image if is_file else self._json
        if name.startswith("image/") or (name in MAYBE_IMAGE_TYPES and is_file):
            return self._image
        if name not in self._readers:
            accepted = ", ".join(shown for codec in self.readers for shown in codec.media_types)
            raise UnsupportedMediaType(
                f"Content-Type: expected {accepted}, or an image as application/octet-stream; got {name[:100]!r}"
                f"{_CURL_HINT if name == CURL_TYPE else ''}"
            )
        return self._readers[name]


@contextmanager
def _hinted(media_type: str) -> Iterator[None]:
    """Add to an error that the missing Content-Type means JSON, or what ``curl -d`` does to an image."""
    try:
        yield
    except MalformedBody as error:
        if media_type == CURL_TYPE:
            raise
        raise MalformedBody(
            f"without a Content-Type, a body that is not an image is read as JSON: {error.message}"
        ) from error
    except ImageUndecodable as error:
        if media_type != CURL_TYPE:
            raise
        raise ImageUndecodable(f"{error.message.removesuffix('.')}{_CURL_HINT}") from error


def _image_bodies(body: bytes, content_type: str, context: RequestContext) -> Sequence[bytes]:
    from lightbox.codecs.multipart import MultipartCodec, read_parts

    parsed = parse_content_type(content_type)
    return read_parts(body, parsed, context) if parsed.name in MultipartCodec.media_types else (body,)


def check_single(codec: Writer, outputs: int) -> None:
    """Raise NotAcceptable if a media type for one output gets another number of them."""
    if codec.single and outputs != 1:
        raise NotAcceptable(
            f"Accept: {codec.media_types[0]} holds one output and this model gives {outputs}; choose one with "
            "outputs in code/lightbox.json or LIGHTBOX_OPTIONS, or accept application/json or application/x-npz"
        )
