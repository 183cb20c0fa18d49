"""The document: the described views of the app, the table of errors, and schemas of the models' signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from flask import Blueprint, Flask, Response, current_app, g, request

from lightbox.base.errors import STATUS_OF_CODE, LightboxError, UnknownSignature
from lightbox.base.request_context import REQUEST_ID_HEADER, REQUEST_ID_HEADERS, REQUEST_ID_PATTERN, RequestContext
from lightbox.core.attributes import CUSTOM_ATTRIBUTES
from lightbox.core.edge import EXCHANGE, MODEL_HEADER, Exchange
from lightbox.core.http import json_body
from lightbox.core.operations import (
    JSON,
    MODEL_NAME,
    REQUEST_IDS,
    SERVER_TIMING,
    Described,
    Operation,
    Served,
    custom_attributes,
    described,
    errors,
    header,
    json_operation,
    path_parameter,
    response,
)
from lightbox.core.pipeline import Pipeline
from lightbox.core.services import Services
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import TEXT, Schema, ref, struct
from lightbox.user_code.aws import AwsHandlers

VERSION = "3.1.0"
_TAG = "Operation"
_ARGUMENT = re.compile(r"<(\w+)>")
_PATH: Mapping[str, tuple[str, Schema]] = {
    "version": ("The model's version.", {"type": "string", "pattern": "^[0-9]{1,18}$"}),
    "label": ("A label that the model server has for a version.", {"type": "string", "pattern": "^[^/]+$"}),
}
_MODEL = ("The model's name.", MODEL_NAME)
_ERROR = {JSON: ref("Error")}
_NO_NAME = "\ufffd"
"""A signature that no model has: the error for it lists the existing ones."""


def openapi_blueprint(services: Services) -> Blueprint:
    """Return the route. Its requests are not observed, as they are not predictions."""
    blueprint = Blueprint(_TAG, __name__)

    @blueprint.get("/openapi.json")
    @described(json_operation({"type": "object", "required": ["openapi"]}))
    def openapi() -> Response:
        """This document."""
        exchange: Exchange = request.environ[EXCHANGE]
        exchange.is_observed = False
        pipeline = services.pipeline
        models, codecs = _models(pipeline, g.context), pipeline.codecs
        descriptions = services.operations(models)
        served = Served(services.settings, models, codecs.readers, codecs.writers, descriptions)
        return Response(json_body(document(served, current_app)), mimetype=JSON)

    return blueprint


def document(served: Served, app: Flask) -> dict[str, Any]:
    """Return OpenAPI 3.1 of the routes of the app and of the supervisor.

    A route without a description is left out; a test detects it.
    """
    paths: dict[str, Any] = {}
    security = {name: way for description in served.descriptions for name, way in description.security.items()}
    open_to_all = {path for description in served.descriptions for path in description.probes}
    schemes = {"securitySchemes": security} if security else {}
    secured: dict[str, Any] = {"security": [{name: []} for name in security]} if security else {}
    for rule, method, operation in [*_of_workers(served, app), *_of_supervisor(served)]:
        path = _ARGUMENT.sub(r"{\1}", rule)
        given = {parameter.get("name") for parameter in operation["parameters"]}
        missing = [name for name in _ARGUMENT.findall(rule) if name not in given]
        operation["parameters"] += [path_parameter(name, *_PATH.get(name, _MODEL)) for name in missing]
        if security and path in open_to_all:
            operation["security"] = []
        elif security:
            operation["responses"] |= errors(("unauthenticated", "permission_denied", "rate_limited"))
        paths.setdefault(path, {})[method.lower()] = operation
    names = ", ".join(model.name for model in served.models) or "none"
    mode = "Models are loaded and unloaded by requests." if served.any_model else "The first is the default."
    return {
        "openapi": VERSION,
        "info": {"title": "Lightbox", "version": _version(), "description": f"Models: {names}. {mode}"},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": _components(served) | {"responses": _error_responses()} | schemes,
        **secured,
    }


def views(app: Flask) -> Iterator[tuple[str, str, str, Described | None]]:
    """Return rule, method, endpoint and description of the app's routes for callers.

    Without those of the supervisor, and those that refuse the rest of a path.
    """
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        if not rule.rule.startswith("/internal/") and "<path:" not in rule.rule:
            found = getattr(app.view_functions[rule.endpoint], "described", None)
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield rule.rule, method, rule.endpoint, found


def _of_workers(served: Served, app: Flask) -> Iterator[tuple[str, str, Operation]]:
    """Return the operations: one for each model and, if others may be loaded, one for any model."""
    for rule, method, endpoint, description in views(app):
        if description is None or (description.changes_models and not served.any_model):
            continue
        tag, _, name = endpoint.rpartition(".")
        models: list[DescribedModel | None] = [*served.models] if description.by_model else []
        for model in [*models, None] if served.any_model or not description.by_model else models:
            operation = deepcopy(description.describe(served, model))
            own_id = f"{name}.{model.name}" if model else name
            operation |= {"summary": description.summary, "operationId": own_id, "tags": [tag]}
            yield rule.replace("<model>", model.name) if model else rule, method, operation


def _of_supervisor(served: Served) -> Iterator[tuple[str, str, Operation]]:
    probes = [(description.tag, *probe) for description in served.descriptions for probe in description.probes.items()]
    for tag, path, probe in probes:
        states = probe(True)
        ok = {JSON: struct({name: {"const": state} for name, state in states.items()})} if states else {}
        failed = response("Not ready.", {JSON: _error(*states)}, by_worker=False)
        failed["headers"]["Retry-After"] = ref("Retry-After", "headers")
        found = {"200": response("Yes.", ok, by_worker=False), "503": failed}
        yield path, "GET", _front(tag, probe.__name__, probe.__doc__ or "", found)
    if served.settings.metrics:
        found = {"200": response("The current values.", {"text/plain": TEXT}, by_worker=False)}
        yield "/metrics", "GET", _front(_TAG, "metrics", "Metrics for Prometheus.", found)


def _front(tag: str, name: str, summary: str, responses: Mapping[str, Any]) -> Operation:
    return {
        "summary": summary.rstrip("."),
        "operationId": name,
        "tags": [tag],
        "parameters": [*REQUEST_IDS],
        "responses": errors({"bad_request", "too_large", "unavailable"}) | dict(responses),
    }


def _components(served: Served) -> dict[str, Any]:
    own_id: Schema = {"type": "string", "pattern": f"^{REQUEST_ID_PATTERN}$"}
    parameters = {name: header(name, "The request's id, else one is made.", own_id) for name in REQUEST_ID_HEADERS}
    parameters[CUSTOM_ATTRIBUTES] = custom_attributes(served)
    headers: dict[str, Any] = {
        REQUEST_ID_HEADER: {"description": "The request's id, as in the log.", "required": True, "schema": TEXT},
        SERVER_TIMING: {"description": "Milliseconds of each stage.", "required": True, "schema": TEXT},
        MODEL_HEADER: {
            "description": "The answering model, as name/version; its name alone if a handler calls it by itself.",
            "schema": TEXT,
        },
        "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}},
    }
    schemas = {"Error": _error(), "ModelError": _model_error()}
    for codec in (*served.readers, *served.writers.values()):
        schemas |= codec.components(served.models)
    for description in served.descriptions:
        schemas |= description.schemas
        parameters |= description.parameters
        headers |= description.headers
    return {"schemas": schemas, "headers": headers, "parameters": parameters}


def _error(*states: str) -> Schema:
    """Return the schema of the error body, which may have the fields of a probe."""
    error: dict[str, Schema] = {
        "error": {"type": "string", "description": "What was expected and what came, in a sentence."},
        "code": {"type": "string", "enum": [*STATUS_OF_CODE]},
        "request_id": {"type": "string"},
    }
    return struct(error, {name: {"type": "boolean"} for name in states})


def _model_error() -> Schema:
    original = {"type": "string", "contentMediaType": JSON, "contentSchema": ref("Error")}
    status = {"type": "integer", "minimum": 400, "maximum": 599}
    own = {"Message": TEXT, "OriginalStatusCode": status, "OriginalMessage": original, "LogStreamArn": TEXT}
    return struct(own)


def _error_responses() -> dict[str, Any]:
    """Return a response for each status of an error, with its codes, and for statuses without a code."""
    codes = {408: ["deadline_exceeded"], 414: ["bad_request"], 431: ["bad_request"]}
    for code, status in STATUS_OF_CODE.items():
        codes.setdefault(status.http, []).append(code)
    of_sagemaker = {JSON: ref("ModelError")}
    responses = {
        "Error4XX": response("The user's code may refuse a request with any status of the 4xx.", _ERROR, False),
        "Error5XX": response("The user's code failed.", _ERROR, False),
        "Error424": response("SageMaker's ModelError. OriginalMessage holds the error, as JSON.", of_sagemaker, False),
    }
    responses["Error424"]["headers"]["x-amzn-ErrorType"] = {"required": True, "schema": {"const": "ModelError"}}
    for number, names in sorted(codes.items()):
        only = {"type": "object", "properties": {"code": {"enum": names}}}
        schema = {"allOf": [ref("Error"), only]}
        responses[f"Error{number}"] = response(f"code: {' or '.join(names)}", {JSON: schema}, by_worker=False)
    for name in ("Error429", "Error503"):
        responses[name]["headers"]["Retry-After"] = ref("Retry-After", "headers")
    responses["Error401"]["headers"]["WWW-Authenticate"] = {"schema": TEXT}
    responses["Error405"]["headers"]["Allow"] = {"schema": TEXT}
    return responses


def _version() -> str:
    try:
        return version("lightbox-serve")
    except PackageNotFoundError:  # the image has only the sources
        return "0"


def _models(pipeline: Pipeline, context: RequestContext) -> list[DescribedModel]:
    """Return the models that answer now, the default one first; failing ones are left out."""
    names = pipeline.models()
    with suppress(LightboxError):
        default = pipeline.served()[0].name
        names = [default, *(name for name in names if name != default)]
    models = []
    for name in names:
        context.check()
        with suppress(LightboxError):
            models.append(_model(pipeline, name, context))
    return models


def _model(pipeline: Pipeline, name: str, context: RequestContext) -> DescribedModel:
    model, handlers = pipeline.served(name)
    signatures = []
    with suppress(UnknownSignature):  # of several, none may be the default one
        signatures.append(pipeline.describe(name, None, context))
    first = [signature.name for signature in signatures]
    try:
        pipeline.describe(name, None, context, _NO_NAME)
    except UnknownSignature as error:
        others = [other for other in error.known if other not in first]
        signatures += [pipeline.describe(name, None, context, other) for other in others]
    reads = isinstance(handlers, AwsHandlers) or handlers.preprocess is not None
    writes = isinstance(handlers, AwsHandlers) or handlers.postprocess is not None
    return DescribedModel(name, tuple(signatures), bool(first), model.options, reads, writes)
