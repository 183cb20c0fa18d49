"""``/invocations``, boto3's own routes below ``/endpoints/``, and what batch transform reads before a job."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request
from flask import Response as HttpResponse

from lightbox.base.settings import Settings
from lightbox.core.http import http_response, json_body
from lightbox.core.operations import described, invocation, json_operation
from lightbox.core.predictions import Predictions
from lightbox.core.services import Services
from lightbox.features.sagemaker.event_stream import add_response_stream
from lightbox.features.sagemaker.schemas import endpoint

USUAL_PAYLOAD_MB = 6
"""SageMaker's own payload if a job sets none: a photo, or thousands of lines."""

SENT_AT_ONCE_MB = 100
"""SageMaker refuses jobs whose payload times concurrency is larger."""


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


def by_path_blueprint(services: Services) -> Blueprint:
    """Return the route ``/models/NAME/invoke`` of models that stay: multi-model mode has it for those it has loaded."""
    blueprint, predictions = Blueprint("Models by path", __name__, url_prefix="/models"), Predictions(services)

    @blueprint.post("/<model>/invoke")
    @described(invocation, by_model=True)
    def invoke_model(model: str) -> HttpResponse:
        """Predict with a model."""
        return http_response(predictions.answer(request.environ, model))

    return blueprint


def add_execution_parameters(blueprint: Blueprint, settings: Settings) -> None:
    """Add the route ``/execution-parameters``; the job's own values take precedence in SageMaker."""
    body = json_body(execution_parameters(settings))

    @blueprint.get("/execution-parameters", endpoint="execution_parameters")
    @described(json_operation("ExecutionParameters"))
    def parameters() -> HttpResponse:
        """Recommended concurrency and payload size of a batch transform job."""
        return HttpResponse(body, mimetype="application/json")


def execution_parameters(settings: Settings) -> dict[str, Any]:
    """Return as many concurrent requests as there are worker threads, each with the largest payload that fits."""
    least_payload = min(settings.max_body_mb, USUAL_PAYLOAD_MB)
    concurrency = min(settings.slots, SENT_AT_ONCE_MB // least_payload)
    return {
        "MaxConcurrentTransforms": concurrency,
        "BatchStrategy": "MULTI_RECORD",
        "MaxPayloadInMB": min(settings.max_body_mb, SENT_AT_ONCE_MB // concurrency),
    }
