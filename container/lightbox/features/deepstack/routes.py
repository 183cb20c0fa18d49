"""The routes: a form with an image gives its objects, the surest first."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from flask import Blueprint, g, request
from flask import Response as HttpResponse
from typing_extensions import override

from lightbox.base.errors import LightboxError, MalformedBody, NotAcceptable, UnsupportedMediaType
from lightbox.base.request_context import RequestContext
from lightbox.codecs.base import Response, Writer
from lightbox.codecs.json_text import from_json, to_json
from lightbox.codecs.media_type import parse_content_type
from lightbox.codecs.multipart import read_parts
from lightbox.core.http import http_response, received_body
from lightbox.core.operations import JSON, REQUEST_IDS, Operation, Served, described, response
from lightbox.core.request import IMAGE, Body, Call
from lightbox.core.services import Services
from lightbox.model.spec import Prediction
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import BINARY, TEXT, Schema, array, ref, struct

FORM, PICTURE, LEAST = "multipart/form-data", "image", "min_confidence"
LEAST_CONFIDENCE = 0.4
"""DeepStack's, of a form without a number."""
_CORNERS = ("x_min", "y_min", "x_max", "y_max")
_PIXEL: Schema = {"type": "integer"}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_FOUND = struct({"label": TEXT, "confidence": _SHARE, **dict.fromkeys(_CORNERS, _PIXEL)})
SCHEMAS: Mapping[str, Schema] = {
    "DeepStackObjects": struct(
        {
            "success": {"const": True},
            "predictions": array(_FOUND),
            "duration": {"type": "number", "description": "Seconds."},
        }
    ),
    "DeepStackForm": {
        "type": "object",
        "properties": {PICTURE: BINARY, LEAST: _SHARE},
        "required": [PICTURE],
    },
}


class _Objects(Writer):
    """The objects that are as sure as a form wants, in whole pixels of its image."""

    media_types: ClassVar[tuple[str, ...]] = (JSON,)
    needs_names: ClassVar[bool] = True

    def __init__(self, least: float) -> None:
        self._least = least

    @override
    def encode(self, prediction: Prediction) -> Response:
        rows = prediction.ranked(lambda *mask: None) if prediction.ranked else None
        items = from_json(rows[0]) if rows else None
        if items is None or any("box" not in item for item in items):
            raise NotAcceptable("this route returns objects, and this model finds none: name a detector")
        found = [
            {
                "label": item.get("label", str(item["class"])),
                "confidence": item["score"],
                **dict(zip(_CORNERS, map(round, item["box"]), strict=True)),
            }
            for item in items
            if item["score"] >= self._least and all(map(math.isfinite, item["box"]))
        ]
        return Response(to_json(found), JSON)


@dataclass(frozen=True)
class _Picture(Body):
    least: float = LEAST_CONFIDENCE

    @override
    def codec(self, has_names: bool) -> Writer:
        return _Objects(self.least)


def _form(served: Served, model: DescribedModel | None) -> Operation:
    return {
        "parameters": REQUEST_IDS,
        "requestBody": {"required": True, "content": {FORM: {"schema": ref("DeepStackForm")}}},
        "responses": served.prediction(response("The objects.", {JSON: ref("DeepStackObjects")})),
    }


def vision_blueprint(services: Services) -> Blueprint:
    """Return the routes."""
    blueprint = Blueprint("DeepStack", __name__, url_prefix="/v1/vision")

    def answer(model: str | None) -> HttpResponse:
        began, context = time.monotonic(), g.context
        try:
            with received_body(request.environ, services.pipeline.memory, services.settings.max_body_mb) as body:
                picture, least = _read(body, request.headers.get("Content-Type", ""), context)
                content = _Picture(services.pipeline.codecs, picture, IMAGE, least=least)
                found = services.pipeline.run(Call(content, model), context)
        except LightboxError as error:
            error.more = {"success": False, "code": error.status}
            raise
        text = b'{"success":true,"predictions":%s,"duration":%.4f}' % (found.body, time.monotonic() - began)
        return http_response(Response(text, JSON))

    @blueprint.post("/detection")
    @described(_form)
    def detect_objects() -> HttpResponse:
        """Find objects with the default model."""
        return answer(None)

    @blueprint.post("/custom/<model>")
    @described(_form, by_model=True)
    def detect_objects_with(model: str) -> HttpResponse:
        """Find objects with a model."""
        return answer(model)

    return blueprint


def _read(body: bytes, content_type: str, context: RequestContext) -> tuple[bytes, float]:
    """Return a form's image and its least confidence. Raises MalformedBody and UnsupportedMediaType."""
    parsed = parse_content_type(content_type)
    if parsed.name != FORM:
        raise UnsupportedMediaType(f"Content-Type: expected {FORM}, got {parsed.name[:100]!r}")
    with context.stage("decode"):
        context.memory.hold(len(body), "the form")
        contents = read_parts(body, parsed, context)
    parts: dict[str, Any] = dict(zip(context.fields, contents, strict=True))
    context.fields, context.file_names = [], []  # errors name the image by none
    if PICTURE not in parts:
        raise MalformedBody(f"expected a part {PICTURE!r} with the image; got {', '.join(parts)[:100]!r}")
    given = parts.get(LEAST, b"") or str(LEAST_CONFIDENCE).encode()
    try:
        least = float(given)
    except ValueError:
        least = math.nan
    if not 0 <= least <= 1:
        raise MalformedBody(f"{LEAST}: expected a number from 0 to 1, got {given[:20].decode(errors='replace')!r}")
    return parts[PICTURE], least
