"""The variable of the description."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, Field

from lightbox.core.settings_types import PART


class OpenApiSettings(BaseModel):
    """The variable of the description."""

    model_config = PART

    openapi: bool = Field(False, validation_alias=AliasChoices("LIGHTBOX_OPENAPI", "LIGHTBOX_PAGE"))
    """Serve `/openapi.json`, which describes the routes and models of this start to tools. It is on where the page is.
    If it is off, the route is 404."""
