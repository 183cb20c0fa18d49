"""The routes that Vertex AI chooses: one for predictions, like ``/invocations``, and one for health checks.

The platform passes a container its routes in ``AIP_*`` variables
(https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements). Its requests are
``{"instances": [...], "parameters": ...}``, its responses ``{"predictions": [...]}``, as in TensorFlow Serving.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel
from typing_extensions import override

from lightbox.base.settings import Settings
from lightbox.base.settings_types import PART, setting
from lightbox.core.additions import Probe
from lightbox.core.feature import OWN_PATHS, Feature

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
PING = "/ping"


class VertexAiSettings(BaseModel):
    """The variables of the routes."""

    model_config = PART

    health_route: str | None = setting(THEME, HEALTH, values_text="a path")
    """Path that responds like `/ping`, set by Vertex AI."""

    predict_route: str | None = setting(THEME, PREDICT, values_text="a path")
    """Path that responds like `/invocations`, set by Vertex AI."""


def vertex_ready(ready: bool) -> dict[str, bool]:
    """Whether requests can be served."""
    return {"ready": ready}


class VertexAi(Feature):
    """Two further names of existing routes, which are Lightbox's own and those of ``others``."""

    name = "vertex_ai"
    settings = VertexAiSettings

    def __init__(self, others: Sequence[Feature]) -> None:
        self._others = others
        self._predictions = [path for other in others for path in other.direct]
        own = [re.escape(path) for path in self._predictions]
        self._predicts = re.compile("|".join([*own, *(pattern for other in others for pattern in other.predicts)]))
        paths = [*OWN_PATHS, *(pattern for other in others for pattern in other.paths)]
        self.taken = re.compile(f"({'|'.join(paths)})(/.*)?")
        """Other routes of Lightbox, on or off, and all paths below them."""

    @override
    def enabled(self, settings: Settings) -> bool:
        return any(self._routes(settings))

    @override
    def problems(self, settings: Settings) -> Mapping[str, str]:
        health, predict = self._added(settings)
        texts = {HEALTH: self._problem(health, PING), PREDICT: self._problem(predict, self._predictions[0])}
        if health and health == predict and not any(texts.values()):
            return {PREDICT: f"expected another path than {HEALTH}"}
        return {variable: text for variable, text in texts.items() if text}

    def _problem(self, route: str | None, example: str) -> str:
        if route is None:
            return ""
        if len(route) > LONGEST_ROUTE or not _PATH.fullmatch(route):
            return (
                f"expected a path such as {example}, of letters, digits and ._~:+,=- between single slashes, "
                f"at most {LONGEST_ROUTE} characters"
            )
        if self.taken.fullmatch(route):
            return f"expected {example}, or a path without routes of Lightbox below it"
        return ""

    @override
    def probes(self, settings: Settings) -> Mapping[str, Probe]:
        health, _ = self._added(settings)
        return {} if health is None else {health: vertex_ready}

    @override
    def routes(self, services: Services) -> Iterable[Blueprint]:
        from flask import Blueprint, request

        from lightbox.core.http import http_response
        from lightbox.core.operations import described, invocation
        from lightbox.core.predictions import Predictions

        _, predict = self._added(services.settings)
        if predict is None:
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

    def _added(self, settings: Settings) -> tuple[str | None, str | None]:
        """Return the routes without those that Lightbox has already, with the behaviour that Vertex AI needs."""
        health, predict = self._routes(settings)
        probes = [PING, *(path for other in self._others for path in other.probes(settings))]
        has_prediction = predict is None or self._predicts.fullmatch(predict)
        return None if health in probes else health, None if has_prediction else predict
