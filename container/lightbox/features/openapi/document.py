"""Puts the document together: the table of routes, and what is known of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lightbox.core.edge import MODEL_HEADER, REQUEST_ID_HEADERS, REQUEST_ID_PATTERN
from lightbox.core.error_bodies import REQUEST_ID_HEADER
from lightbox.core.http import TARGET_MODEL
from lightbox.features.openapi import failures
from lightbox.features.openapi.models import DescribedModel, infer_response
from lightbox.features.openapi.parts import (
    SERVER_TIMING,
    SESSION_REQUEST,
    SESSION_STATE,
    TEXT,
    Operation,
    Route,
    Served,
    header,
    path_parameter,
    ref,
)
from lightbox.features.openapi.routes import FRONT_ROUTES, ONLY_MULTI_MODEL, ROUTES
from lightbox.features.openapi.tensors import BASE64, EXAMPLES, RESULTS, Schema, any_of, array, struct
from lightbox.features.sessions.requests import CLOSED_HEADER, NEW_HEADER, SESSION
from lightbox.features.sessions.settings import SessionSettings
from lightbox.features.sessions.store import CLOSE, NEW
from lightbox.model.layout import LONGEST_NAME
from lightbox.sagemaker.custom_attributes import CUSTOM_ATTRIBUTES, KNOWN_PAIRS

VERSION = "3.1.0"
_ARGUMENT = re.compile(r"<(\w+)>")
_NUMBER: Schema = {"type": "integer", "minimum": 1}
_PATH = {
    "model": ("The model's name.", {"type": "string", "pattern": f"^[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}$"}),
    "version": ("The model's version.", {"type": "string", "pattern": "^[0-9]{1,18}$"}),
}


def document(
    served: Served, rules: Iterable[tuple[str, str]], of_features: Mapping[tuple[str, str], Route]
) -> dict[str, Any]:
    """Return OpenAPI 3.1 for ``rules``, pairs of a method and a path as Flask writes it, and for the front's routes.

    ``of_features`` describes the routes of the features. Raises KeyError for a route that is not described.
    """
    paths: dict[str, Any] = {}
    routes = {**ROUTES, **of_features}
    for method, rule in sorted(rules, key=lambda pair: (pair[1], pair[0])):
        _add(paths, served, routes[method, rule], method, rule)
    for (method, rule), route in FRONT_ROUTES.items():
        if rule != "/metrics" or served.settings.metrics:
            _add(paths, served, route, method, rule)
    return {
        "openapi": VERSION,
        "info": {"title": "Lightbox", "version": _version(), "description": _description(served)},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": _schemas(served),
            "responses": failures.error_responses(),
            "headers": _headers(served),
            "parameters": _parameters(served),
        },
    }


def _add(paths: dict[str, Any], served: Served, route: Route, method: str, rule: str) -> None:
    """Add a route: for each model a path of its own and, where others may come, one for any model."""
    by_model = rule.startswith("/v2/models/<model>")
    if route.id in ONLY_MULTI_MODEL and served.settings.has_fixed_models:
        return
    whose: list[DescribedModel | None] = [*served.models] if by_model else []
    for model in [*whose, None] if (not served.settings.has_fixed_models) or not by_model else whose:
        path = rule if model is None else rule.replace("<model>", model.name)
        operation: Operation = deepcopy(route.describe(served, model))
        operation |= {"operationId": route.id + (f".{model.name}" if model else ""), "tags": [route.tag]}
        given = {parameter.get("name") for parameter in operation["parameters"]}
        for name in _ARGUMENT.findall(path):
            if name not in given:
                operation["parameters"].append(path_parameter(name, *_PATH.get(name, _PATH["model"])))
        paths.setdefault(_ARGUMENT.sub(r"{\1}", path), {})[method.lower()] = operation


def _version() -> str:
    try:
        return version("lightbox")
    except PackageNotFoundError:  # the image has the sources alone
        return "0"


def _description(served: Served) -> str:
    names = ", ".join(model.name for model in served.models) or "none"
    mode = (
        "Models are loaded and unloaded by requests."
        if (not served.settings.has_fixed_models)
        else "The first is the default."
    )
    return f"Models: {names}. {mode}"


def _headers(served: Served) -> dict[str, Any]:
    found = {
        REQUEST_ID_HEADER: {"description": "The request's id, as in the log.", "required": True, "schema": TEXT},
        SERVER_TIMING: {"description": "Milliseconds of each stage.", "required": True, "schema": TEXT},
        MODEL_HEADER: {
            "description": "The model that has answered, as name/version; its name where a handler calls it by itself.",
            "schema": TEXT,
        },
        "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}},
    }
    if served.settings.of(SessionSettings).sessions:
        found[NEW_HEADER] = {"description": "The id of the session that was opened; Expires=<UTC>.", "schema": TEXT}
        found[CLOSED_HEADER] = {"description": "The id of the session that was closed.", "schema": TEXT}
    return found


def _parameters(served: Served) -> dict[str, Any]:
    own_id: Schema = {"type": "string", "pattern": f"^{REQUEST_ID_PATTERN}$"}
    found = {name: header(name, "The request's id, else one is made.", own_id) for name in REQUEST_ID_HEADERS}
    about = f"Pairs of name=value, separated by commas. Lightbox reads {', '.join(KNOWN_PAIRS)}."
    named: dict[str, Any] = {"example": f"tfs-model-name={served.models[0].name}"} if served.models else {}
    found[CUSTOM_ATTRIBUTES] = header(CUSTOM_ATTRIBUTES, about, **named)
    if not served.settings.has_fixed_models:
        found[TARGET_MODEL] = header(TARGET_MODEL, "The model's folder or archive below the models directory.")
    if served.settings.of(SessionSettings).sessions:
        found[SESSION] = header(SESSION, f"The id of a session, or {NEW} to open one.", example=NEW)
    return found


def _schemas(served: Served) -> dict[str, Schema]:
    found = failures.error_schemas() | _protocol_schemas() | _example_schemas()
    if not served.settings.has_fixed_models:
        found |= _multi_model_schemas()
    if served.settings.of(SessionSettings).sessions:
        found |= {
            SESSION_REQUEST: struct({"requestType": {"enum": [NEW, CLOSE]}}),
            SESSION_STATE: struct({"session": TEXT}),
        }
    for model in served.models:
        found |= model.schemas()
    return found


def _protocol_schemas() -> dict[str, Schema]:
    shape = array({"type": "integer", "minimum": -1})
    tensor = struct({"name": TEXT, "datatype": TEXT, "shape": shape})
    sizes = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    tensor_data: dict[str, Schema] = {
        "name": TEXT,
        "datatype": TEXT,
        "shape": sizes,
        "data": {"type": "array"},
        "parameters": ref("Parameters"),
    }
    wanted = struct({"name": TEXT, "parameters": ref("Parameters")}, ["parameters"])
    request = {
        "id": TEXT,
        "inputs": array(struct(tensor_data, ["parameters"]), 1),
        "outputs": array(wanted),
        "parameters": ref("Parameters"),
    }
    metadata = {
        "name": TEXT,
        "versions": array(TEXT),
        "platform": TEXT,
        "inputs": array(tensor),
        "outputs": array(tensor),
        "parameters": {"type": "object"},
    }
    return {
        "ExecutionParameters": struct(
            {"MaxConcurrentTransforms": _NUMBER, "BatchStrategy": {"const": "MULTI_RECORD"}, "MaxPayloadInMB": _NUMBER}
        ),
        "ServerMetadata": struct({"name": TEXT, "version": TEXT, "extensions": array(TEXT)}),
        "Live": struct({"live": {"const": True}}),
        "Ready": struct({"live": {"const": True}, "ready": {"const": True}}),
        "ModelMetadata": struct(metadata, ["parameters"]),
        "RepositoryModel": struct(
            {"name": TEXT, "version": TEXT, "state": {"enum": ["READY", "UNAVAILABLE"]}, "reason": TEXT}
        ),
        "Parameters": {
            "type": "object",
            "properties": {
                "binary_data": {"type": "boolean", "description": "Of an output: return it as a blob."},
                "binary_data_output": {"type": "boolean", "description": "Of a request: return all outputs as blobs."},
                "binary_data_size": {"description": "Of an input: bytes of its blob; as text the bytes of each image."},
            },
        },
        "InferOutput": struct(tensor_data, ["data", "parameters"]),
        "InferRequest": struct(request, ["id", "outputs", "parameters"]),
        "InferResponse": infer_response([ref("InferOutput")]),
    }


def _example_schemas() -> dict[str, Schema]:
    """Return the bodies of tfs-method=classify and regress."""
    value = any_of([TEXT, BASE64, {"type": "number"}])
    feature = any_of([value, array(value)])
    features: Schema = {"type": "object", "additionalProperties": feature}
    scored: Schema = {
        "type": "array",
        "prefixItems": [any_of([TEXT, BASE64]), {"type": "number"}],
        "minItems": 2,
        "maxItems": 2,
    }
    return {
        EXAMPLES: struct(
            {"examples": array(features, 1), "context": features, "signature_name": TEXT}, ["context", "signature_name"]
        ),
        RESULTS: struct({"results": array(any_of([array(scored), {"type": "number"}]))}),
    }


def _multi_model_schemas() -> dict[str, Schema]:
    state = struct({"error_code": TEXT, "error_message": TEXT})
    status = struct({"version": TEXT, "state": TEXT, "status": state})
    entry: Mapping[str, Schema] = {"modelName": TEXT, "modelUrl": TEXT}
    about = struct({"model_version_status": array(status)})
    pages = {"next_page_token": TEXT, "nextPageToken": TEXT}
    return {
        "LoadModel": struct({"model_name": {"type": "string", "pattern": _PATH["model"][1]["pattern"]}, "url": TEXT}),
        "LoadedModel": struct(dict(entry) | {"success": TEXT, "model": about}, ["success", "model"]),
        "LoadedModels": struct({"models": array(struct(entry))} | pages, [*pages]),
    }
