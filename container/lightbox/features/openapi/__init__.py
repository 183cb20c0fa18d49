"""``GET /openapi.json``: OpenAPI 3.1 of this start, made on request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.settings_types import PART, setting
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.services import Services


class OpenApiSettings(BaseModel):
    """The variable of the description."""

    model_config = PART

    openapi: bool = setting("Description", "LIGHTBOX_OPENAPI", "LIGHTBOX_PAGE", default=False)
    """Serve `/openapi.json`, which [describes routes and models](openapi.md), and gRPC server reflection."""


class OpenApi(Feature):
    """The route with the description."""

    name = "openapi"
    modules = (f"{__name__}.document",)
    settings = OpenApiSettings
    paths = ("/openapi.json",)
    describes = True

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from lightbox.features.openapi.document import openapi_blueprint

        yield openapi_blueprint(services)
