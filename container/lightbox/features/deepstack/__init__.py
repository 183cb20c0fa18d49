"""DeepStack's detection of objects, as camera software asks for it: Frigate, Blue Iris, Agent DVR, Home Assistant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.operations import Description
    from lightbox.core.services import Services
    from lightbox.openapi.models import DescribedModel


class DeepStackSettings(BaseModel):
    """The variable of DeepStack's routes."""

    model_config = PART

    deepstack: bool = setting("DeepStack", "LIGHTBOX_DEEPSTACK", default=False)
    """Serve [DeepStack's detection](clients.md#frigate-blue-iris-agent-dvr): `/v1/vision/detection` with the default
    model, `/v1/vision/custom/NAME` with another one."""


class DeepStack(Feature):
    """Two routes, which answer forms with the objects in one image."""

    name = "deepstack"
    settings = DeepStackSettings
    modules = (f"{__name__}.routes",)
    paths = ("/v1/vision",)
    model_paths = ("/v1/vision/custom/([^/]+)",)

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from lightbox.features.deepstack.routes import vision_blueprint

        yield vision_blueprint(services)

    @override
    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        from lightbox.core.operations import Description
        from lightbox.features.deepstack.routes import SCHEMAS

        return Description(schemas=SCHEMAS)
