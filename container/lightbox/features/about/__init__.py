"""``GET /about``: the versions that answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from lightbox.feature import Feature

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.services import Services
    from lightbox.openapi.models import DescribedModel
    from lightbox.openapi.operations import Description


class About(Feature):
    """One route, always on."""

    name = "about"

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from flask import Blueprint, Response

        from lightbox.core.http import json_body

        blueprint = Blueprint("about", __name__)

        @blueprint.get("/about")
        def about() -> Response:
            models = {name: list(services.pipeline.versions(name)) for name in services.pipeline.models()}
            return Response(json_body({"models": models}), mimetype="application/json")

        yield blueprint

    @override
    def operations(self, models: Sequence[DescribedModel]) -> Description:
        from lightbox.openapi.operations import Description, Route, get

        schema = {"type": "object", "required": ["models"]}
        described = get("Models and the versions that answer", "Versions by model.", schema)
        return Description(routes={("GET", "/about"): Route("about", "Operation", described)})
