"""``/models/NAME/invoke`` for models that stay the same: multi-model mode has it for those that it has loaded."""

from __future__ import annotations

from flask import Blueprint, request
from flask import Response as HttpResponse

from lightbox.core.http import http_response
from lightbox.core.operations import described, invocation
from lightbox.core.predictions import Predictions
from lightbox.core.services import Services


def by_path_blueprint(services: Services) -> Blueprint:
    """Return the route that names a model in its path."""
    blueprint, predictions = Blueprint("Models by path", __name__, url_prefix="/models"), Predictions(services)

    @blueprint.post("/<model>/invoke")
    @described(invocation, by_model=True)
    def invoke_model(model: str) -> HttpResponse:
        """Predict with a model."""
        return http_response(predictions.answer(request.environ, model))

    return blueprint
