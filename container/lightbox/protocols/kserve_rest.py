"""The Open Inference Protocol's REST form: the routes below /v2. The Content-Type says nothing there.

``/v2/health/live`` and ``/v2/health/ready`` are answered beside the workers, as /ping is (processes/health.py).
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, g, request

from lightbox.codecs.json_values import parse_values, parsing_bytes
from lightbox.errors import MalformedBody
from lightbox.pipeline import Pipeline
from lightbox.protocols.answers import json_body
from lightbox.protocols.bodies import received_body
from lightbox.protocols.kserve.repository import Repository, server_metadata
from lightbox.protocols.kserve.requests import version_number
from lightbox.protocols.kserve.rest_answers import JSON_LENGTH, encode_answer
from lightbox.protocols.kserve.rest_request import read_body
from lightbox.protocols.kserve.sagemaker_headers import read_headers
from lightbox.telemetry.clock import RequestClock


def kserve_blueprint(pipeline: Pipeline, repository: Repository, max_body_mb: int) -> Blueprint:
    """Return the routes; ``max_body_mb`` bounds in MiB what a compressed body unfolds to."""
    blueprint = Blueprint("kserve", __name__, url_prefix="/v2")

    @blueprint.get("")
    @blueprint.get("/")
    def server() -> Response:
        return _json(server_metadata())

    @blueprint.get("/models/<model>")
    @blueprint.get("/models/<model>/versions/<version>")
    def metadata(model: str, version: str = "") -> Response:
        return _json(repository.model_metadata(model, version, g.clock))

    @blueprint.get("/models/<model>/ready")
    @blueprint.get("/models/<model>/versions/<version>/ready")
    def ready(model: str, version: str = "") -> Response:
        repository.check_ready(model, version, g.clock)
        return _json({"name": model, "ready": True})

    @blueprint.post("/models/<model>/infer")
    @blueprint.post("/models/<model>/versions/<version>/infer")
    def infer(model: str, version: str = "") -> Response:
        headers = read_headers(request.headers.get)
        repository.target(model, headers, g.clock)
        length = (JSON_LENGTH, request.headers.get(JSON_LENGTH))
        number = version_number(version) if version else headers.version
        with received_body(pipeline.memory, max_body_mb, g.clock) as body:
            asked = read_body(pipeline, body, length, model, number, headers, g.clock)
            found = pipeline.infer(asked.tensors(model, version, headers), g.clock)
            with g.clock.stage("postprocess"):
                answer = encode_answer(found, asked)
        return Response(answer.body, content_type=answer.content_type, headers=dict(answer.headers))

    @blueprint.post("/repository/index")
    def index() -> Response:
        with received_body(pipeline.memory, max_body_mb, g.clock) as body:
            ready_only = _ready_only(body, g.clock)
        return _json(repository.index(ready_only, g.clock))

    @blueprint.post("/repository/models/<model>/load")
    def load(model: str) -> Response:
        repository.load(model, g.clock)
        return _json({})

    @blueprint.post("/repository/models/<model>/unload")
    def unload(model: str) -> Response:
        repository.unload(model, g.clock)
        return _json({})

    return blueprint


def _ready_only(body: bytes, clock: RequestClock) -> bool:
    if not body.strip():
        return False
    clock.memory.hold(len(body) + parsing_bytes(body), "the JSON")
    (wanted, *_) = parse_values(body)
    if not isinstance(wanted, dict):
        raise MalformedBody('the body: expected a JSON object such as {"ready": true}')
    return wanted.get("ready") is True


def _json(value: Any) -> Response:
    return Response(json_body(value), mimetype="application/json")
