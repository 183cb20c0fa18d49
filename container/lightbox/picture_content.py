"""Pictures as the content of calls: a part of the image that was sent, or what a session keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lightbox.call import Call, FindSignature
from lightbox.codecs.base import DecodedRequest, Method, Parsed
from lightbox.contents import IMAGE, Invocation
from lightbox.errors import BadRequest
from lightbox.images.picture import Crop, Picture
from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec
from lightbox.request_context import RequestContext
from lightbox.user_code.handlers import Request


def cropped(content: Invocation, crop: Crop) -> PictureInvocation:
    """Return a part of the image that a body is. Raises BadRequest for other bodies."""
    if not content.codecs.is_one_image(content.body, content.content_type):
        came = content.content_type[:100] or f"{len(content.body)} bytes without a Content-Type"
        raise BadRequest(f"tfs-crop: expected a body that is one image, got {came}")
    return showing(content, content.codecs.images.part(content.body, crop))


def showing(content: Invocation, picture: Picture) -> PictureInvocation:
    """Return a picture in a body's place."""
    return PictureInvocation(content.codecs, b"", accept=content.accept, method=content.method, picture=picture)


@dataclass(frozen=True)
class PictureInvocation(Invocation):
    """A picture in place of a body. User code, and models that take files, get it as one: see ``ImageCodec.encode``."""

    picture: Picture = field(kw_only=True)

    def parse(self, context: RequestContext) -> Parsed:
        """See Content.parse."""
        if self.method is not Method.PREDICT:
            raise BadRequest(f"tfs-method={self.method.value}: expected examples as application/json, got an image")

        def decode(signature: SignatureSpec, options: ModelOptions) -> DecodedRequest:
            return DecodedRequest(
                signature, self.codecs.images.decode_picture(self.picture, signature, options, context)
            )

        return Parsed(decode)

    def shown(
        self, call: Call[Any], request: DecodedRequest, options: ModelOptions, context: RequestContext
    ) -> Request:
        """See Content.shown."""
        return self._as_body(context).shown(call, request, options, context)

    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Invocation]:
        """See Content.for_handler."""
        return [self._as_body(context)]

    def _as_body(self, context: RequestContext) -> Invocation:
        body = self.codecs.images.encode(self.picture, context)
        return Invocation(self.codecs, body, IMAGE, self.accept, self.method)
