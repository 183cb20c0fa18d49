"""The posted image with its classes or objects drawn into it, as JPEG or PNG."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from lightbox.base.errors import NotAcceptable
from lightbox.codecs.base import Response, Writer
from lightbox.codecs.json_text import from_json, named_rows
from lightbox.model.spec import Array, Prediction


class JpegWriter(Writer):
    """One image with its answer, as JPEG."""

    media_types: ClassVar[tuple[str, ...]] = ("image/jpeg",)
    needs_names: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    form: ClassVar[str] = "JPEG"

    @override
    def encode(self, prediction: Prediction) -> Response:
        from lightbox.images.drawing import MOST_JPEG, Marks, drawn, encoded, toned

        picture, (media_type, *_), numbers = prediction.picture, self.media_types, _numbers(prediction)
        if numbers is not None and prediction.ranked and prediction.ranked() is not None:
            numbers = None  # of anomalies the part beyond the threshold is drawn
        marks = Marks(picture.size, picture.origin) if picture is not None else None
        row = b"[]" if numbers is not None else named_rows(prediction, self, marks.add if marks else None)[0]
        if picture is None:
            raise NotAcceptable(f"Accept: {media_type} shows one image, for a model of pixels; post one image")
        if self.form == "JPEG" and max(picture.size) > MOST_JPEG:
            raise NotAcceptable(f"Accept: {media_type} holds sides of {MOST_JPEG:,} pixels; accept image/png")
        if numbers is not None:
            return Response(encoded(toned(picture.pixels, numbers), self.form), media_type)
        (values, *_) = next(iter(prediction.outputs.values())) if prediction.is_map else (None,)
        classes = values if values is not None and values.dtype.kind == "u" else None
        shown = drawn(picture.pixels, from_json(row), picture.origin, classes, marks)
        return Response(encoded(shown, self.form), media_type)


class PngWriter(JpegWriter):
    """The same as PNG; a map itself."""

    media_types: ClassVar[tuple[str, ...]] = ("image/png",)
    form: ClassVar[str] = "PNG"
    headers: ClassVar[tuple[str, ...]] = ("X-Lightbox-Least", "X-Lightbox-Largest")

    @override
    def encode(self, prediction: Prediction) -> Response:
        if not prediction.is_map:
            return super().encode(prediction)
        from lightbox.images.drawing import bounds_of, map_file

        (maps,) = prediction.outputs.values()
        if len(maps) != 1:
            raise NotAcceptable(f"Accept: {self.media_types[0]} holds one map, got {len(maps)} images")
        numbers = _numbers(prediction)
        bounds = () if numbers is None else (f"{bound:.6g}" for bound in bounds_of(numbers))
        return Response(map_file(maps[0]), self.media_types[0], dict(zip(self.headers, bounds, strict=False)))


def _numbers(prediction: Prediction) -> Array | None:
    """Return the first image's map of numbers; None for other outputs, and for a map of classes."""
    found = next(iter(prediction.outputs.values())) if prediction.is_map else None
    return found[0] if found is not None and found.dtype.kind == "f" else None
