"""SageMaker's protocol: ``POST /invocations``, and what boto3's ``invoke_endpoint`` calls.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
"""

from __future__ import annotations

from flask import Blueprint, Request, Response, g, request

from lightbox.errors import BadRequest, LightboxError, NotAcceptable
from lightbox.pipeline import Invocation, Pipeline
from lightbox.protocols.answers import error_response, json_body
from lightbox.telemetry.clock import RequestClock

CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
SERVABLE = ("application/json",)


def sagemaker_blueprint(pipeline: Pipeline) -> Blueprint:
    """Return the routes ``/invocations`` and ``/endpoints/<name>/invocations``."""
    blueprint = Blueprint("sagemaker", __name__)

    @blueprint.post("/invocations")
    def invocations() -> Response:
        return _invoke(pipeline)

    @blueprint.post("/endpoints/<name>/invocations")
    def endpoint_invocations(name: str) -> Response:
        try:
            return _invoke(pipeline)
        except LightboxError as error:
            return _model_error(error, name)

    return blueprint


def _invoke(pipeline: Pipeline) -> Response:
    clock: RequestClock = g.clock
    _check_accept(request)
    attributes = parse_custom_attributes(request.headers.get(CUSTOM_ATTRIBUTES, ""))
    invocation = Invocation(
        body=request.get_data(cache=False),
        media_type=request.mimetype,
        model=attributes.get("tfs-model-name") or None,
        version=_version(attributes.get("tfs-model-version")),
        signature=attributes.get("tfs-signature-name") or None,
        transport=attributes.get("tfs-transport") or None,
    )
    answer = pipeline.invoke(invocation, clock)
    return Response(answer.body, mimetype=answer.media_type)


def _check_accept(incoming: Request) -> None:
    if incoming.accept_mimetypes and not incoming.accept_mimetypes.best_match(SERVABLE):
        raise NotAcceptable(f"Accept: this endpoint answers {', '.join(SERVABLE)}; got {incoming.headers['Accept']!r}")


def parse_custom_attributes(header: str) -> dict[str, str]:
    """Return the ``name=value`` pairs of a comma-separated header; what is no pair is left to others."""
    pairs = (part.partition("=") for part in header.split(","))
    return {name.strip(): value.strip() for name, equals, value in pairs if equals and name.strip()}


def _version(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest(f"tfs-model-version: expected a whole number, got {text!r}")
    return int(text)


def _model_error(error: LightboxError, endpoint: str) -> Response:
    """Return an error as SageMaker's runtime gives a model's error, so that boto3 raises ModelError."""
    original = error_response(error)
    body = {
        "Message": f"Received status {original.status_code} from the model container {endpoint}: {error.message}",
        "OriginalStatusCode": original.status_code,
        "OriginalMessage": original.get_data(as_text=True),
        "LogStreamArn": "",
    }
    response = Response(json_body(body), status=424, mimetype="application/json")
    response.headers["x-amzn-ErrorType"] = "ModelError"
    if "Retry-After" in original.headers:
        response.headers["Retry-After"] = original.headers["Retry-After"]
    return response
