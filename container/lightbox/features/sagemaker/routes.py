"""``/invocations``, boto3's own routes below ``/endpoints/``, and what batch transform reads before a job."""

from __future__ import annotations

from flask import Blueprint, request
from flask import Response as HttpResponse

from lightbox.core.http import http_response
from lightbox.core.operations import described, invocation
from lightbox.core.predictions import Predictions
from lightbox.core.services import Services
from lightbox.features.sagemaker.event_stream import add_response_stream
from lightbox.features.sagemaker.execution_parameters import add_execution_parameters
from lightbox.features.sagemaker.schemas import endpoint


def sagemaker_blueprint(services: Services) -> Blueprint:
    """Return the routes. Those below ``/endpoints/`` load the target model, and return ModelErrors."""
    blueprint, predictions = Blueprint("SageMaker", __name__), Predictions(services)

    @blueprint.post("/invocations")
    @described(invocation)
    def invoke() -> HttpResponse:
        """Predict with the default model, or with the model of the custom attributes."""
        # Loads no model: the platform loads models by name.
        return http_response(predictions.answer(request.environ))

    @blueprint.post("/endpoints/<name>/invocations")
    @described(endpoint)
    def invoke_endpoint(name: str) -> HttpResponse:
        """Predict, as SageMaker's InvokeEndpoint does."""
        return http_response(predictions.answer(request.environ, loads=True))

    add_response_stream(blueprint, predictions)
    add_execution_parameters(blueprint, services.settings)
    return blueprint
