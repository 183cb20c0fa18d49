"""Each route's operation: what the table of routes does not say by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lightbox.codecs.npy import OctetStreamWriter
from lightbox.core.edge import MODEL_HEADER
from lightbox.core.http import TARGET_MODEL
from lightbox.features.open_inference.rest import JSON_LENGTH
from lightbox.features.openapi import examples, failures
from lightbox.features.openapi.models import DescribedModel
from lightbox.features.openapi.parts import (
    BINARY,
    JSON,
    REQUEST_IDS,
    TEXT,
    Describe,
    Operation,
    Route,
    Served,
    attributes,
    example,
    header,
    of_sessions,
    path_parameter,
    ref,
    request_content,
    response,
    response_content,
)
from lightbox.features.openapi.tensors import Schema, array
from lightbox.features.sessions.requests import CLOSED_HEADER, NEW_HEADER, SESSION
from lightbox.features.sessions.settings import SessionSettings
from lightbox.processes.metrics_page import CONTENT_TYPE as METRICS_TYPE
from lightbox.sagemaker.event_stream import ACCEPT, MEDIA_TYPE

BODY = "May have a Content-Encoding: gzip or deflate."


def _invocation(served: Served, summary: str, ok: Operation) -> Operation:
    if served.settings.of(SessionSettings).sessions:
        ok["headers"] |= {name: ref(name, "headers") for name in (NEW_HEADER, CLOSED_HEADER)}
    ok["headers"][MODEL_HEADER] = ref(MODEL_HEADER, "headers")
    session = of_sessions(served, [SESSION], "parameters")
    body = f"{BODY} With a session's id: empty, to ask about the image that the session keeps." if session else BODY
    return {
        "summary": summary,
        "parameters": [*attributes(served), *session, *REQUEST_IDS],
        "requestBody": {"required": not session, "content": request_content(served), "description": body},
        "responses": served.responses(ok, failures.OF_A_PREDICTION, by_user_code=True),
    }


def _invocations(served: Served, _: DescribedModel | None) -> Operation:
    ok = response("The predictions.", response_content(served))
    ok["headers"] |= {name: {"schema": TEXT} for name in OctetStreamWriter.headers}
    return _invocation(served, "Predict with the default model, or with the one that the custom attributes name", ok)


def _as_endpoint(served: Served, found: Operation) -> Operation:
    """Return an operation as SageMaker's own route has it: failures of the container are ModelErrors."""
    found["parameters"].append(path_parameter("name", "The endpoint's name; any."))
    told = {str(status): ref(failures.component_name(status), "responses") for status in (400, 404, 414, 424, 431)}
    found["responses"] = {"200": found["responses"]["200"]} | told
    return found


def _endpoint(served: Served, model: DescribedModel | None) -> Operation:
    found = _invocations(served, model) | {"summary": "Predict, as SageMaker's InvokeEndpoint does"}
    return _as_endpoint(served, found)


def _stream(served: Served, _: DescribedModel | None) -> Operation:
    ok = response("A stream of PayloadPart events.", {MEDIA_TYPE: BINARY})
    ok["headers"]["X-Amzn-SageMaker-Content-Type"] = {"description": "Of what is inside the events.", "schema": TEXT}
    found = _invocation(served, "Predict, as SageMaker's InvokeEndpointWithResponseStream does", ok)
    found["parameters"].append(header(ACCEPT, "Media type of the response inside the events; without it JSON lines."))
    return _as_endpoint(served, found)


def _get(summary: str, text: str, schema: Schema, codes: Iterable[str] = failures.ANYWHERE) -> Describe:
    """Return what describes a GET that is answered with JSON."""

    def describe(served: Served, _: DescribedModel | None) -> Operation:
        responses = served.responses(response(text, {JSON: schema}), codes)
        return {"summary": summary, "parameters": [*REQUEST_IDS], "responses": responses}

    return describe


def _front(summary: str, ok: Mapping[str, Schema], failed: str | None) -> Describe:
    """Return what describes a route that the supervisor answers."""

    def describe(served: Served, _: DescribedModel | None) -> Operation:
        responses = {"200": response("Yes." if failed else "As it is now.", ok, by_worker=False)}
        if failed:
            not_ready = response("Not yet, or not any more.", {JSON: ref(failed)}, by_worker=False)
            not_ready["headers"]["Retry-After"] = ref("Retry-After", "headers")
            responses["503"] = not_ready
        for status in failures.statuses({"bad_request", "too_large", *(() if failed else ("unavailable",))}):
            responses.setdefault(str(status), ref(failures.component_name(status), "responses"))
        return {"summary": summary, "parameters": [*REQUEST_IDS], "responses": responses}

    return describe


def _metadata(served: Served, model: DescribedModel | None) -> Operation:
    return _get("Inputs and outputs of a model", "The model.", ref("ModelMetadata"), failures.OF_A_MODEL)(served, model)


def _infer(served: Served, model: DescribedModel | None) -> Operation:
    sent = ref(f"{model.name}.infer_request") if model else ref("InferRequest")
    got = ref(f"{model.name}.infer_response") if model else ref("InferResponse")
    shown = examples.inference(model.default) if model and model.default else None
    length = header(
        JSON_LENGTH,
        "Bytes of the JSON at the begin of the body, blobs follow it. 0: all of it is one input.",
        {"type": "integer", "minimum": 0},
    )
    ok = response(
        "The outputs. JSON with blobs behind it is application/octet-stream.",
        {JSON: got, "application/octet-stream": BINARY},
    )
    ok["headers"][MODEL_HEADER] = ref(MODEL_HEADER, "headers")
    ok["headers"][JSON_LENGTH] = {"schema": {"type": "integer", "minimum": 1}}
    return {
        "summary": "Predict",
        "parameters": [length, *attributes(served), *REQUEST_IDS],
        "requestBody": {
            "required": True,
            "description": BODY,
            "content": {JSON: {"schema": sent} | example(shown), "application/octet-stream": {"schema": BINARY}},
        },
        "responses": served.responses(ok, failures.OF_A_PREDICTION, by_user_code=True),
    }


def _index(served: Served, _: DescribedModel | None) -> Operation:
    ok = response("The models.", {JSON: array(ref("RepositoryModel"))})
    wanted = {"type": "object", "properties": {"ready": {"type": "boolean", "description": "Leave out the others."}}}
    return {
        "summary": "All models with their state",
        "parameters": [*REQUEST_IDS],
        "requestBody": {"content": {JSON: {"schema": wanted}}},
        "responses": served.responses(ok, failures.ANYWHERE | {"malformed_body", "unsupported_media_type"}),
    }


def _changed(summary: str, schema: Schema) -> Describe:
    """Return what describes the load or unload of a model that the path names."""

    def describe(served: Served, _: DescribedModel | None) -> Operation:
        ok = response("Done.", {JSON: schema})
        return {"summary": summary, "parameters": [*REQUEST_IDS], "responses": served.responses(ok, failures.OF_A_LOAD)}

    return describe


def _load(served: Served, _: DescribedModel | None) -> Operation:
    ok = response("The model is loaded.", {JSON: ref("LoadedModel")})
    responses = served.responses(ok, failures.OF_A_LOAD) | {"408": ref(failures.component_name(408), "responses")}
    return {
        "summary": "Load a model",
        "parameters": [*REQUEST_IDS],
        "requestBody": {"required": True, "content": {JSON: {"schema": ref("LoadModel")}}},
        "responses": responses,
    }


def _list(served: Served, model: DescribedModel | None) -> Operation:
    found = _get("Loaded models", "A page of models.", ref("LoadedModels"))(served, model)
    token = {"name": "next_page_token", "in": "query", "description": "Of an earlier response.", "schema": TEXT}
    return found | {"parameters": [token, *REQUEST_IDS]}


def _invoke_model(served: Served, model: DescribedModel | None) -> Operation:
    found = _invocations(served, model) | {"summary": "Predict with a loaded model"}
    found["parameters"].remove(ref(TARGET_MODEL, "parameters"))
    return found


SAGEMAKER, PROTOCOL, MANY, OPERATION = "SageMaker", "Open Inference Protocol", "Multi-model mode", "Operation"
_READY: Schema = {
    "type": "object",
    "properties": {"name": TEXT, "ready": {"const": True}},
    "required": ["name", "ready"],
}
_EMPTY: Schema = {"type": "object", "maxProperties": 0}

ROUTES: dict[tuple[str, str], Route] = {
    ("POST", "/invocations"): Route("invoke", SAGEMAKER, _invocations),
    ("POST", "/endpoints/<name>/invocations"): Route("invoke_endpoint", SAGEMAKER, _endpoint),
    ("POST", "/endpoints/<name>/invocations-response-stream"): Route("invoke_endpoint_stream", SAGEMAKER, _stream),
    ("GET", "/execution-parameters"): Route(
        "execution_parameters",
        SAGEMAKER,
        _get("What a batch transform job should send at once", "The parameters.", ref("ExecutionParameters")),
    ),
    ("GET", "/openapi.json"): Route(
        "openapi", OPERATION, _get("This document", "OpenAPI 3.1.", {"type": "object", "required": ["openapi"]})
    ),
    ("GET", "/v2"): Route("server", PROTOCOL, _get("Server metadata", "The server.", ref("ServerMetadata"))),
    ("GET", "/v2/"): Route("server_slash", PROTOCOL, _get("Server metadata", "The server.", ref("ServerMetadata"))),
    ("GET", "/v2/models/<model>"): Route("metadata", PROTOCOL, _metadata),
    ("GET", "/v2/models/<model>/versions/<version>"): Route("metadata_of_version", PROTOCOL, _metadata),
    ("GET", "/v2/models/<model>/ready"): Route(
        "ready", PROTOCOL, _get("Whether a model can answer", "It can.", _READY, failures.OF_A_MODEL)
    ),
    ("GET", "/v2/models/<model>/versions/<version>/ready"): Route(
        "ready_of_version", PROTOCOL, _get("Whether a version can answer", "It can.", _READY, failures.OF_A_MODEL)
    ),
    ("POST", "/v2/models/<model>/infer"): Route("infer", PROTOCOL, _infer),
    ("POST", "/v2/models/<model>/versions/<version>/infer"): Route("infer_version", PROTOCOL, _infer),
    ("POST", "/v2/repository/index"): Route("repository_index", PROTOCOL, _index),
    ("POST", "/v2/repository/models/<model>/load"): Route(
        "repository_load", PROTOCOL, _changed("Load a model", _EMPTY)
    ),
    ("POST", "/v2/repository/models/<model>/unload"): Route(
        "repository_unload", PROTOCOL, _changed("Unload a model", _EMPTY)
    ),
    ("POST", "/models"): Route("load", MANY, _load),
    ("GET", "/models"): Route("list", MANY, _list),
    ("GET", "/models/<name>"): Route(
        "describe", MANY, _get("A loaded model", "The model.", ref("LoadedModel"), failures.OF_A_MODEL)
    ),
    ("DELETE", "/models/<name>"): Route("unload", MANY, _changed("Unload a model", ref("LoadedModel"))),
    ("POST", "/models/<name>/invoke"): Route("invoke_model", MANY, _invoke_model),
}
"""Of the routes that workers answer."""

FRONT_ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/ping"): Route("ping", SAGEMAKER, _front("Whether requests can be served", {}, "Error")),
    ("GET", "/metrics"): Route(
        "metrics", OPERATION, _front("Metrics for Prometheus", {METRICS_TYPE.partition(";")[0]: TEXT}, None)
    ),
    ("GET", "/v2/health/live"): Route("live", PROTOCOL, _front("Whether the server runs", {JSON: ref("Live")}, None)),
    ("GET", "/v2/health/ready"): Route(
        "server_ready", PROTOCOL, _front("Whether requests can be served", {JSON: ref("Ready")}, "NotReady")
    ),
}
"""Of the routes that the supervisor answers, beside the workers."""
ONLY_MULTI_MODEL = ("repository_load", "repository_unload")
"""Routes that are there always, and refuse every request with fixed models."""
