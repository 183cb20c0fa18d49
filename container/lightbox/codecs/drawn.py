"""The posted image with its classes or objects drawn into it, as JPEG or PNG."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from lightbox.base.errors import NotAcceptable
from lightbox.codecs.base import Response, Writer
from lightbox.codecs.json_text import from_json, named_rows
from lightbox.model.spec import Prediction


class JpegWriter(Writer):
    """One image with its answer, as JPEG."""

    media_types: ClassVar[tuple[str, ...]] = ("image/jpeg",)
    needs_names: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    form: ClassVar[str] = "JPEG"

    @override
    def encode(self, prediction: Prediction) -> Response:
        from lightbox.images.drawing import MOST_JPEG, drawn, encoded

        rows, picture, (media_type, *_) = named_rows(prediction, self), prediction.picture, self.media_types
        if picture is None:
            raise NotAcceptable(f"Accept: {media_type} shows one image, for a model of pixels; post one image")
        if self.form == "JPEG" and max(picture.size) > MOST_JPEG:
            raise NotAcceptable(f"Accept: {media_type} holds sides of {MOST_JPEG:,} pixels; accept image/png")
        return Response(encoded(drawn(picture.pixels, from_json(rows[0]), picture.origin), self.form), media_type)


class PngWriter(JpegWriter):
    """The same as PNG."""

    media_types: ClassVar[tuple[str, ...]] = ("image/png",)
    form: ClassVar[str] = "PNG"
