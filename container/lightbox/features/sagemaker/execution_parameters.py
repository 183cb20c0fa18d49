"""``/execution-parameters``, which SageMaker's batch transform reads before a job."""

from __future__ import annotations

from typing import Any

from flask import Blueprint
from flask import Response as HttpResponse

from lightbox.base.settings import Settings
from lightbox.core.http import json_body
from lightbox.core.operations import described, json_operation

USUAL_PAYLOAD_MB = 6
"""SageMaker's own payload if a job sets none: a photo, or thousands of lines."""

SENT_AT_ONCE_MB = 100
"""SageMaker refuses jobs whose payload times concurrency is larger."""


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
