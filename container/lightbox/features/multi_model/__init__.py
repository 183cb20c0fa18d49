"""Loading and unloading models while serving, as in SageMaker's multi-model endpoints.

https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.errors import StartError
from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.core.additions import NginxParts, ServedModels
from lightbox.core.feature import Feature
from lightbox.model_runtime.access import is_dir
from lightbox.supervisor.starting.models_on_disk import shared_code_dirs
from lightbox.user_code.paths import refuse_code

if TYPE_CHECKING:
    from flask import Blueprint, Response

    from lightbox.core.operations import Description
    from lightbox.core.services import Services
    from lightbox.core.start import Start
    from lightbox.model.catalogue import Catalogue
    from lightbox.model.plan import ServingPlan
    from lightbox.openapi.models import DescribedModel
    from lightbox.user_code.registry import UserCode


class MultiModelSettings(BaseModel):
    """The variables of multi-model mode."""

    model_config = PART

    multi_model: bool = setting("Multi-model mode", "SAGEMAKER_MULTI_MODEL", default=False)
    """Multi-model mode: start without models, and [load and unload them](production.md#load-and-unload-models) by
    requests to `/models`. An archive may unpack to 4 GiB, and to 64 MiB plus 100 times its size."""

    max_models: int = setting("Multi-model mode", "LIGHTBOX_MAX_MODELS", default=1000, ge=1, le=100_000)
    """Maximum number of loaded models. Beyond it a load gets 507, unless models that only a TargetModel loaded can
    [make room](production.md#load-and-unload-models)."""


class MultiModel(Feature):
    """Starts without models; requests load, list and unload them."""

    name = "multi_model"
    modules = (f"{__name__}.loadable_models", f"{__name__}.routes")
    settings = MultiModelSettings
    paths = ("/models",)
    model_paths = ("/models/([^/]+)/invoke",)
    # All below except predictions, so that future routes are covered.
    manages = (r"/models(?!/[^/]+/invoke\Z)(/|\Z)",)
    # SageMaker's folder. It is set by the setting's last variable, which the others override.
    defaults: ClassVar[Mapping[str, str]] = {"AIP_STORAGE_URI": "/opt/ml/models"}
    loads_models = "POST /models"

    @override
    def problems(self, settings: Settings) -> Mapping[str, str]:
        expected = f"expected none in multi-model mode, where {self.loads_models} names models"
        return {"LIGHTBOX_MODELS": expected} if settings.models else {}

    @override
    def check(self, settings: Settings) -> None:
        root = settings.model_dir
        refuse_code(shared_code_dirs(settings), settings)
        if is_dir(root) and not (is_dir(real := root.resolve()) and real.samefile(root)):
            raise StartError(
                "LIGHTBOX_MODEL_DIR: multi-model mode does not follow links into another process's root; "
                f"expected a folder in its own, got {root}"
            )

    @override
    def served(self, run_dir: Path) -> ServedModels | None:
        from lightbox.features.multi_model.state import LoadedModels

        state = LoadedModels(run_dir)
        return ServedModels(state.all, state.loadable, f"multi-model mode: models are loaded by {self.loads_models}")

    @override
    def nginx(self, start: Start) -> NginxParts:
        return NginxParts.of(Path(__file__).parent)

    @override
    def catalogue(self, settings: Settings, plan: ServingPlan, run_dir: Path, user_code: UserCode) -> Catalogue | None:
        from lightbox.features.multi_model.loadable_models import LoadableModels

        most = settings.of(MultiModelSettings).max_models
        return LoadableModels.of(settings, most, plan, run_dir, user_code)

    @override
    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        from lightbox.core.operations import Description
        from lightbox.features.multi_model.routes import SCHEMAS, TARGET

        return Description(schemas=SCHEMAS, parameters={TARGET["name"]: TARGET})

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from flask import request

        from lightbox.core.http import http_response
        from lightbox.core.predictions import Predictions
        from lightbox.features.multi_model.loadable_models import LoadableModels
        from lightbox.features.multi_model.routes import multi_model_blueprint

        models = services.pipeline.catalogue
        assert isinstance(models, LoadableModels), "it is this feature's"
        predictions = Predictions(services)

        def invoke(name: str) -> Response:
            return http_response(predictions.answer(request.environ, name))

        yield multi_model_blueprint(models.loader, models.state, invoke)
