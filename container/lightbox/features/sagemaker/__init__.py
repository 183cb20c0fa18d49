"""SageMaker's routes: predictions, boto3's own routes, response streams and batch transform."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from lightbox.base.settings import Settings
from lightbox.core.additions import NginxParts
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from flask import Blueprint

    from lightbox.core.operations import Description
    from lightbox.core.services import Services
    from lightbox.core.start import Start
    from lightbox.openapi.models import DescribedModel


class SageMaker(Feature):
    """Always on."""

    name = "sagemaker"
    modules = (f"{__name__}.routes",)
    paths = ("/endpoints", "/execution-parameters", "/invocations")
    direct = ("/invocations",)
    model_errors = ("/endpoints/",)

    @override
    def nginx(self, start: Start) -> NginxParts:
        return NginxParts(places={"MODEL_ERRORS": "|".join(self.model_errors)})

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from lightbox.features.sagemaker.routes import by_path_blueprint, sagemaker_blueprint

        yield sagemaker_blueprint(services)
        if services.settings.has_fixed_models:
            yield by_path_blueprint(services)

    @override
    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        from lightbox.features.sagemaker.schemas import describe

        return describe()
