"""What boto3's ``invoke_endpoint_with_response_stream`` calls: the answer comes as a stream of events, a line each.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointWithResponseStream.html
"""

from __future__ import annotations

from flask import Blueprint, Response, g, request

from lightbox.multi_model.targets import Targets
from lightbox.pipeline import Pipeline
from lightbox.protocols import event_stream
from lightbox.protocols.sagemaker import invoke, target_model

ACCEPT = "X-Amzn-SageMaker-Accept"
"""The type of the answer inside of the events; Accept itself would be about the stream."""

BY_LINE = ("application/jsonlines", "application/json", "text/")
LINES = "application/jsonlines"


def response_stream_blueprint(pipeline: Pipeline, max_body_mb: int, targets: Targets | None = None) -> Blueprint:
    """Return the route ``/endpoints/<name>/invocations-response-stream``.

    Without an Accept of the caller's the answer is JSON lines: one prediction, one event. Whatever fails does so
    before the stream begins, and is a ModelError.
    """
    blueprint = Blueprint("response_stream", __name__)

    @blueprint.post("/endpoints/<name>/invocations-response-stream")
    def invocations_response_stream(name: str) -> Response:
        model = target_model(targets, g.clock)
        return _as_events(invoke(pipeline, max_body_mb, model, accept=request.headers.get(ACCEPT) or LINES))

    return blueprint


def _as_events(answer: Response) -> Response:
    """Put an answer into PayloadPart events; its headers stay, but for its type."""
    by_line = (answer.mimetype or "").startswith(BY_LINE)
    pieces = event_stream.parts(answer.get_data(), by_line)
    answer.headers["X-Amzn-SageMaker-Content-Type"] = answer.headers["Content-Type"]
    answer.headers["Content-Type"] = event_stream.MEDIA_TYPE
    answer.set_data(b"".join(event_stream.encode_event("PayloadPart", piece) for piece in pieces))
    return answer
