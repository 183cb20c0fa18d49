"""``GET /about``: the versions that answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from typing_extensions import override

from lightbox.feature import Feature

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.services import Services


class About(Feature):
    """One route, always on."""

    name = "about"

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from flask import Blueprint, Response

        from lightbox.core.http import json_body
        from lightbox.openapi.operations import answers, described

        blueprint = Blueprint("About", __name__)

        @blueprint.get("/about")
        @described(answers({"type": "object", "required": ["models"]}))
        def about() -> Response:
            """Models and the versions that answer."""
            models = {name: list(services.pipeline.versions(name)) for name in services.pipeline.models()}
            return Response(json_body({"models": models}), mimetype="application/json")

        yield blueprint
