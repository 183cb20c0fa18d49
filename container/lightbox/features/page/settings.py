"""The variable of the page."""

from __future__ import annotations

from pydantic import BaseModel, Field

from lightbox.core.settings_types import PART


class PageSettings(BaseModel):
    """The variable of the page."""

    model_config = PART

    page: bool = Field(False, validation_alias="LIGHTBOX_PAGE")
    """Serve a page to try models with, at `/` and `/ui`. `make serve` turns it on."""
