"""SageMaker's routes: /invocations, boto3's own, batch transform's, and the response stream.

A response stream is Amazon's event stream encoding, ``application/vnd.amazon.eventstream``, as far as a response in
parts needs it (https://smithy.io/2.0/aws/amazon-eventstream.html):

    total length, length of the headers   4 bytes each, big-endian; the whole message counts
    CRC-32 of these 8 bytes               4 bytes
    headers                               each: length of name, name, type, length of value, value
    payload
    CRC-32 of all before                  4 bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Blueprint, g, request
from flask import Response as HttpResponse

from lightbox.call import CROP, OUTPUTS, Call
from lightbox.codecs.base import Method, Response
from lightbox.contents import Invocation
from lightbox.errors import BadRequest
from lightbox.multi_model.loader import TargetModels
from lightbox.picture_content import cropped
from lightbox.pipeline import Pipeline
from lightbox.protocols.http import (
    CUSTOM_ATTRIBUTES,
    TARGET_MODEL,
    check_query,
    is_triton_type,
    json_body,
    parse_crop,
    parse_custom_attributes,
    parse_method,
    parse_version,
    received_body,
)
from lightbox.protocols.open_inference import rest
from lightbox.protocols.sessions import SESSION, SessionRequests, refused
from lightbox.request_context import RequestContext
from lightbox.settings import Settings

USUAL_PAYLOAD_MB = 6
"""SageMaker's own payload where nobody chooses one: a photo, or thousands of lines."""

SENT_AT_ONCE_MB = 100
"""SageMaker refuses jobs in which payload times concurrency is more."""


def internal_blueprint(pipeline: Pipeline) -> Blueprint:
    """Return the routes ``/internal/probe``: 200 once the default model has predicted, or a version of a model."""
    blueprint = Blueprint("internal", __name__)

    @blueprint.get("/internal/probe")
    def probe() -> HttpResponse:
        pipeline.probe(g.context)
        return HttpResponse(b"", mimetype="application/json")

    @blueprint.get("/internal/probe/<model>/<int:version>")
    def probe_version(model: str, version: int) -> HttpResponse:
        pipeline.probe_version(model, version, g.context)
        return HttpResponse(b"", mimetype="application/json")

    return blueprint


def batch_transform_blueprint(settings: Settings) -> Blueprint:
    """Return the route ``/execution-parameters``; what a job sets itself counts more for SageMaker."""
    blueprint = Blueprint("batch_transform", __name__)
    body = json_body(execution_parameters(settings))

    @blueprint.get("/execution-parameters")
    def parameters() -> HttpResponse:
        return HttpResponse(body, mimetype="application/json")

    return blueprint


def execution_parameters(settings: Settings) -> dict[str, Any]:
    """Return as many concurrent requests as the workers have threads, each with as many records as fit."""
    least_payload = min(settings.max_body_mb, USUAL_PAYLOAD_MB)
    concurrency = min(settings.slots, SENT_AT_ONCE_MB // least_payload)
    return {
        "MaxConcurrentTransforms": concurrency,
        "BatchStrategy": "MULTI_RECORD",
        "MaxPayloadInMB": min(settings.max_body_mb, SENT_AT_ONCE_MB // concurrency),
    }


def sagemaker_blueprint(pipeline: Pipeline, max_body_mb: int, targets: TargetModels | None = None) -> Blueprint:
    """Return the routes ``/invocations`` and ``/endpoints/<name>/invocations``; the edge makes errors of the latter
    SageMaker's.

    ``max_body_mb`` bounds in MiB what a compressed body unfolds to. In multi-model mode ``targets`` loads models.
    """
    blueprint = Blueprint("sagemaker", __name__)

    @blueprint.post("/invocations")
    def invocations() -> HttpResponse:
        # Loads nothing: here it is the platform that loads models, by their names.
        target = request.headers.get(TARGET_MODEL)
        return invoke(pipeline, max_body_mb, targets.loaded(target) if targets and target else None)

    @blueprint.post("/endpoints/<name>/invocations")
    def endpoint_invocations(name: str) -> HttpResponse:
        return invoke(pipeline, max_body_mb, target_model(targets, g.context))

    return blueprint


def target_model(targets: TargetModels | None, context: RequestContext) -> str | None:
    """Return the model that the current request targets, loaded if it was not; None where there is no target."""
    target = request.headers.get(TARGET_MODEL)
    return targets.load(target, context) if targets and target else None


def invoke(pipeline: Pipeline, max_body_mb: int, model: str | None = None, accept: str | None = None) -> HttpResponse:
    """Answer the current request with ``model``, else with the one that its custom attributes name.

    ``accept`` stands for the request's Accept header.
    """
    context: RequestContext = g.context
    with received_body(pipeline.memory, max_body_mb, context) as body:
        return _response(_answer(pipeline, body, model, accept, context))


def _answer(
    pipeline: Pipeline, body: bytes, model: str | None, accept: str | None, context: RequestContext
) -> Response:
    check_query()
    headers = request.headers
    content_type = headers.get("Content-Type", "")
    custom_attributes = headers.get(CUSTOM_ATTRIBUTES)
    attributes = parse_custom_attributes(custom_attributes or "")
    if SESSION in headers and (pipeline.sessions is None or is_triton_type(content_type)):
        raise refused(pipeline.sessions)
    if is_triton_type(content_type):
        model = model or attributes.get("tfs-model-name")
        return rest.answer(pipeline, body, content_type, model, headers.get, context)
    content = Invocation(
        pipeline.codecs,
        body,
        content_type,
        headers.get("Accept", "") if accept is None else accept,
        parse_method(attributes.get("tfs-method")),
    )
    crop = parse_crop(attributes.get(CROP))
    version = parse_version(attributes.get("tfs-model-version"))
    outputs = tuple(dict.fromkeys(attributes.get(OUTPUTS, "").replace(",", " ").split()))
    if outputs and content.method is not Method.PREDICT:
        raise BadRequest(f"{OUTPUTS}: expected no such pair with tfs-method={content.method.value}")

    def predict(content: Invocation) -> Response:
        call = Call(
            content,
            model=model or attributes.get("tfs-model-name") or None,
            version=version,
            signature=attributes.get("tfs-signature-name") or None,
            transport=attributes.get("tfs-transport") or None,
            outputs=outputs,
            attributes=attributes,
            custom_attributes=custom_attributes,
        )
        return pipeline.run(call, context)

    if pipeline.sessions is not None:
        sessions = SessionRequests(pipeline.sessions, context)
        return sessions.answer(headers.get(SESSION), content, crop, predict)
    return predict(content if crop is None else cropped(content, crop))


def _response(response: Response) -> HttpResponse:
    return HttpResponse(response.body, content_type=response.content_type, headers=dict(response.headers))


MEDIA_TYPE = "application/vnd.amazon.eventstream"
MAX_PART = 1 << 20
"""Bytes of one payload; readers refuse messages beyond 16 to 24 MiB."""

_STRING = 7
_PRELUDE = struct.Struct(">II")
_CRC = struct.Struct(">I")
ACCEPT = "X-Amzn-SageMaker-Accept"
"""The content type inside the events; Accept itself refers to the stream."""

BY_LINE = ("application/jsonlines", "application/json", "text/")
LINES = "application/jsonlines"


def encode_event(event_type: str, payload: bytes) -> bytes:
    """Return one message: an event whose payload is bytes."""
    return encode_message(
        {":message-type": "event", ":event-type": event_type, ":content-type": "application/octet-stream"}, payload
    )


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message; names may have 255 bytes, values 65535."""
    encoded = b"".join(map(_header, headers, headers.values()))
    prelude = _PRELUDE.pack(_PRELUDE.size + _CRC.size + len(encoded) + len(payload) + _CRC.size, len(encoded))
    message = b"".join((prelude, _CRC.pack(zlib.crc32(prelude)), encoded, payload))
    return message + _CRC.pack(zlib.crc32(message))


def parts(body: bytes, by_line: bool) -> Iterator[bytes]:
    """Cut a body into payloads of at most MAX_PART bytes: a line each, its end included, or as they fall."""
    pieces = body.splitlines(keepends=True) if by_line else [body]
    for piece in pieces:
        for start in range(0, len(piece), MAX_PART):
            yield piece[start : start + MAX_PART]


def _header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    return struct.pack(">B", len(name_bytes)) + name_bytes + struct.pack(">BH", _STRING, len(value_bytes)) + value_bytes


def response_stream_blueprint(pipeline: Pipeline, max_body_mb: int, targets: TargetModels | None = None) -> Blueprint:
    """Return the route ``/endpoints/<name>/invocations-response-stream``.

    Without an Accept of the caller's the answer is JSON lines: one prediction, one event. Whatever fails does so
    before the stream begins, and is a ModelError.
    """
    blueprint = Blueprint("response_stream", __name__)

    @blueprint.post("/endpoints/<name>/invocations-response-stream")
    def invocations_response_stream(name: str) -> HttpResponse:
        model = target_model(targets, g.context)
        return _as_events(invoke(pipeline, max_body_mb, model, accept=request.headers.get(ACCEPT) or LINES))

    return blueprint


def _as_events(response: HttpResponse) -> HttpResponse:
    """Put a response into PayloadPart events; its headers stay, but for its type."""
    by_line = (response.mimetype or "").startswith(BY_LINE)
    pieces = parts(response.get_data(), by_line)
    response.headers["X-Amzn-SageMaker-Content-Type"] = response.headers["Content-Type"]
    response.headers["Content-Type"] = MEDIA_TYPE
    response.set_data(b"".join(encode_event("PayloadPart", piece) for piece in pieces))
    return response
