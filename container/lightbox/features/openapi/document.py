"""Puts the document together: the table of routes, and what is known of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lightbox.core.edge import MODEL_HEADER, REQUEST_ID_HEADERS, REQUEST_ID_PATTERN
from lightbox.core.error_bodies import REQUEST_ID_HEADER
from lightbox.openapi import failures
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.operations import (
    MODEL_NAME,
    SERVER_TIMING,
    Operation,
    Route,
    Served,
    front,
    get,
    header,
    path_parameter,
)
from lightbox.openapi.schemas import TEXT, Schema

VERSION = "3.1.0"
_ARGUMENT = re.compile(r"<(\w+)>")
_PATH: Mapping[str, tuple[str, Schema]] = {
    "model": ("The model's name.", MODEL_NAME),
    "version": ("The model's version.", {"type": "string", "pattern": "^[0-9]{1,18}$"}),
}
_TAG = "Operation"
_DOCUMENT = Route("openapi", _TAG, get("This document", "OpenAPI 3.1.", {"type": "object", "required": ["openapi"]}))
_METRICS = Route("metrics", _TAG, front("Metrics for Prometheus", {"text/plain": TEXT}, None))


def document(served: Served, rules: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return OpenAPI 3.1 for ``rules``, pairs of a method and a path as Flask writes it, and for the front's routes.

    Raises KeyError for a route that is not described.
    """
    paths: dict[str, Any] = {}
    workers, beside = {("GET", "/openapi.json"): _DOCUMENT}, {}
    if served.settings.metrics:
        beside["GET", "/metrics"] = _METRICS
    for description in served.descriptions:
        workers |= description.routes
        beside |= description.front
    for method, rule in sorted(rules, key=lambda pair: (pair[1], pair[0])):
        _add(paths, served, workers[method, rule], method, rule)
    for (method, rule), route in beside.items():
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
    if route.changes_models and not served.any_model:
        return
    whose: list[DescribedModel | None] = [*served.models] if route.by_model else []
    for model in [*whose, None] if served.any_model or not route.by_model else whose:
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
    mode = "Models are loaded and unloaded by requests." if served.any_model else "The first is the default."
    return f"Models: {names}. {mode}"


def _headers(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = {
        REQUEST_ID_HEADER: {"description": "The request's id, as in the log.", "required": True, "schema": TEXT},
        SERVER_TIMING: {"description": "Milliseconds of each stage.", "required": True, "schema": TEXT},
        MODEL_HEADER: {
            "description": "The model that has answered, as name/version; its name where a handler calls it by itself.",
            "schema": TEXT,
        },
        "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}},
    }
    for description in served.descriptions:
        found |= description.headers
    return found


def _parameters(served: Served) -> dict[str, Any]:
    own_id: Schema = {"type": "string", "pattern": f"^{REQUEST_ID_PATTERN}$"}
    found = {name: header(name, "The request's id, else one is made.", own_id) for name in REQUEST_ID_HEADERS}
    for description in served.descriptions:
        found |= description.parameters
    return found


def _schemas(served: Served) -> dict[str, Schema]:
    found = failures.error_schemas()
    for codec in (*served.readers, *served.writers.values()):
        found |= codec.components(served.models)
    for description in served.descriptions:
        found |= description.schemas
    return found
