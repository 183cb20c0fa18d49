"""``GET /openapi.json``: OpenAPI 3.1 of what this start serves, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from typing_extensions import override

from lightbox.core.settings import Settings
from lightbox.feature import Feature
from lightbox.features.openapi.settings import OpenApiSettings

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.services import Services


class OpenApi(Feature):
    """The route with the description."""

    name = "openapi"
    modules = (f"{__name__}.blueprint",)
    settings = OpenApiSettings
    theme = "Description"

    @override
    def enabled(self, settings: Settings) -> bool:
        return settings.of(OpenApiSettings).openapi

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from lightbox.features.openapi.blueprint import openapi_blueprint

        yield openapi_blueprint(services)
