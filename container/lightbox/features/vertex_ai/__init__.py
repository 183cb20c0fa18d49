"""The routes that Vertex AI chooses: one for predictions, like ``/invocations``, and one for health checks.

The platform passes a container its routes in ``AIP_*`` variables
(https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements). Its requests are
``{"instances": [...], "parameters": ...}``, its responses ``{"predictions": [...]}``, as in TensorFlow Serving.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel
from typing_extensions import override

from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.core.additions import Probe
from lightbox.core.feature import Feature

if TYPE_CHECKING:
    from flask import Blueprint
    from flask import Response as HttpResponse

    from lightbox.core.operations import Description
    from lightbox.core.services import Services
    from lightbox.openapi.models import DescribedModel

THEME, HEALTH, PREDICT = "Vertex AI", "AIP_HEALTH_ROUTE", "AIP_PREDICT_ROUTE"
LONGEST_ROUTE = 1000
"""Characters."""
_PATH = re.compile(r"(/(?!\.{1,2}(/|\Z))[A-Za-z0-9._~:+,=-]+)+")
"""Characters that nginx takes literally in a location and in a path, and does not normalize."""
TAKEN = re.compile(
    "/(endpoints|execution-parameters|internal|invocations|invocations-bidirectional-stream|metrics|models|nginx-[^/]*|"
    "openapi.json|ping|ui|v2)(/.*)?"
)
"""Prefixes of Lightbox's own routes, on or off. Below /v1/ are Vertex AI's own and TensorFlow Serving's, whose
responses have the same form."""
_PROBES = re.compile("/ping|/v2/health/(live|ready)")
_PREDICTIONS = re.compile("/invocations|/v2/models/[^/]+(/versions/[^/]+)?/infer")
"""Existing routes with the behaviour that Vertex AI needs."""


def _parse_route(value: str | None, there: re.Pattern[str], example: str) -> str | None:
    if value is None or there.fullmatch(value):
        return value
    if len(value) > LONGEST_ROUTE or not _PATH.fullmatch(value):
        raise ValueError(
            f"expected a path such as {example}, of letters, digits and ._~:+,=- between single slashes, "
            f"at most {LONGEST_ROUTE} characters"
        )
    if TAKEN.fullmatch(value):
        raise ValueError(f"expected {example}, or a path without routes of Lightbox below it")
    return value


def _parse_health(value: str | None) -> str | None:
    return _parse_route(value, _PROBES, "/ping")


def _parse_predict(value: str | None) -> str | None:
    return _parse_route(value, _PREDICTIONS, "/invocations")


class VertexAiSettings(BaseModel):
    """The variables of the routes."""

    model_config = PART

    health_route: Annotated[str | None, AfterValidator(_parse_health)] = setting(THEME, HEALTH, values_text="a path")
    """Path that responds like `/ping`, set by Vertex AI."""

    predict_route: Annotated[str | None, AfterValidator(_parse_predict)] = setting(THEME, PREDICT, values_text="a path")
    """Path that responds like `/invocations`, set by Vertex AI."""


def vertex_ready(ready: bool) -> dict[str, bool]:
    """Whether requests can be served."""
    return {"ready": ready}


class VertexAi(Feature):
    """Two further names of existing routes."""

    name = "vertex_ai"
    settings = VertexAiSettings

    @override
    def enabled(self, settings: Settings) -> bool:
        return any(self._routes(settings))

    @override
    def problems(self, settings: Settings) -> Mapping[str, str]:
        health, predict = self._routes(settings)
        return {PREDICT: f"expected another path than {HEALTH}"} if health == predict else {}

    @override
    def probes(self, settings: Settings) -> Mapping[str, Probe]:
        health, _ = self._routes(settings)
        return {} if health is None or _PROBES.fullmatch(health) else {health: vertex_ready}

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from flask import Blueprint, request

        from lightbox.core.http import http_response
        from lightbox.core.operations import described, invocation
        from lightbox.core.predictions import Predictions

        _, predict = self._routes(services.settings)
        if predict is None or _PREDICTIONS.fullmatch(predict):
            return
        blueprint, predictions = Blueprint(THEME, __name__), Predictions(services)

        @blueprint.post(predict)
        @described(invocation)
        def vertex_predict() -> HttpResponse:
            """Predict, as /invocations does, on Vertex AI's route."""
            return http_response(predictions.answer(request.environ))

        yield blueprint

    @override
    def operations(self, settings: Settings, models: Sequence[DescribedModel]) -> Description:
        from lightbox.core.operations import Description

        return Description(probes=self.probes(settings), tag=THEME)

    def _routes(self, settings: Settings) -> tuple[str | None, str | None]:
        own = settings.of(VertexAiSettings)
        return own.health_route, own.predict_route
