"""multipart/form-data with one or several images, under any names: a batch in the order of the parts.

werkzeug's parser is imported on first use, as the other codecs do not need werkzeug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from typing_extensions import override

from lightbox.base.errors import MalformedBody, TooLarge
from lightbox.base.request_context import RequestContext
from lightbox.codecs.base import Parsed, Reader
from lightbox.codecs.media_type import ContentType
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Method, ModelCall, SignatureSpec
from lightbox.openapi.schemas import BINARY, Schema

MAX_PARTS = 1000
_CHUNK, _MAX_HEADERS = 1 << 16, 1 << 18
"""In bytes. The parser gets the body in pieces of this size, so it buffers only the headers of one part."""


class MultipartCodec(Reader):
    """Reads forms of browsers and of ``curl -F image=@photo.jpg``.

    Every part is an image; empty file fields are left out.
    """

    media_types: ClassVar[tuple[str, ...]] = ("multipart/form-data",)
    schema: ClassVar[Schema] = {"type": "object", "additionalProperties": BINARY, "minProperties": 1}
    of_images: ClassVar[bool] = True

    @override
    def parse(self, body: bytes, content_type: ContentType, method: Method, context: RequestContext) -> Parsed:
        def decode(signature: SignatureSpec, options: ModelOptions) -> ModelCall:
            with context.stage("decode"):
                context.memory.hold(3 * len(body), "the form")
                images = read_parts(body, content_type, context)
            return self._images.decode(images, signature, options, context)

        return Parsed(decode)


def read_parts(body: bytes, content_type: ContentType, context: RequestContext) -> list[bytes]:
    """Return the contents of a form's parts, and note their field names in the context.

    Raises MalformedBody, TooLarge, and DeadlineExceeded as context.check does.
    """
    boundary = content_type.parameters.get("boundary", "")
    if not boundary:
        raise MalformedBody("Content-Type: expected a parameter boundary for multipart/form-data")
    mark = boundary.encode("latin-1", "replace")
    if body.find(b"--" + mark, 0, _MAX_HEADERS) < 0:
        raise MalformedBody("the form cannot be read: it does not begin with the boundary of its Content-Type")
    from werkzeug.exceptions import RequestEntityTooLarge

    try:
        parts = list(_parts(body, mark, context.check))
    except RequestEntityTooLarge:
        raise TooLarge(f"the form has more than {MAX_PARTS} parts, or headers of more than 256 kB") from None
    except (ValueError, AttributeError, LookupError):
        raise MalformedBody("the form cannot be read: a part is broken or the last boundary is missing") from None
    if not parts:
        raise MalformedBody("the form has no part; images were expected")
    context.fields = [field for field, _, _ in parts]
    context.file_names = [name for _, name, _ in parts]
    return [content for _, _, content in parts]


def _parts(body: bytes, boundary: bytes, step: Callable[[], None]) -> Iterator[tuple[str, str, bytes]]:
    """Yield field name, file name and content of each part with a file or a value; ``step`` is called in between."""
    from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData

    def events() -> Iterator[Event]:
        decoder = MultipartDecoder(boundary, _MAX_HEADERS, max_parts=MAX_PARTS)
        for start in range(0, len(body), _CHUNK):
            step()
            decoder.receive_data(body[start : start + _CHUNK])
            while not isinstance(event := decoder.next_event(), NeedData | Epilogue):
                yield event
        decoder.receive_data(None)
        while not isinstance(event := decoder.next_event(), Epilogue):
            yield event

    field, name, pieces, nameless = "", "", list[bytes](), False
    for event in events():
        if isinstance(event, File | Field):
            name = (event.filename or "") if isinstance(event, File) else ""
            field, pieces, nameless = event.name, [], isinstance(event, File) and not name
        elif isinstance(event, Data):
            pieces.append(event.data)
            if not event.more_data and (any(pieces) or not nameless):
                yield field, name, b"".join(pieces)
