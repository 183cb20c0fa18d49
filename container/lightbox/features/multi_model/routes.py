"""SageMaker's container API for multi-model endpoints: the routes below /models.

https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html

Responses about one model also have the keys of AWS's TensorFlow Serving container: ``success``, and ``model`` with
TensorFlow Serving's version states. That container's list has names as keys, which leaves no place for others. Texts
that its callers may search for are part of these responses and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response, g, request

from lightbox.base.error_texts import without_folders
from lightbox.base.errors import BadRequest, DeadlineExceeded, LoadTimeout, MalformedBody, ModelNotFound, TooLarge
from lightbox.codecs.json_text import from_json
from lightbox.core.attributes import TARGET_MODEL
from lightbox.core.edge import drain_body
from lightbox.core.http import json_body
from lightbox.core.operations import (
    MODEL_NAME,
    OF_A_LOAD,
    OF_A_MODEL,
    Operation,
    Served,
    described,
    header,
    invocation,
    json_operation,
)
from lightbox.features.multi_model.loader import ModelLoader
from lightbox.features.multi_model.model_path import Source
from lightbox.features.multi_model.state import LoadedModel, LoadedModels
from lightbox.model_files.layout import LONGEST_NAME
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import TEXT, Schema, array, ref, struct
from lightbox.transports.model_status import VersionStatus

MAX_LOAD_BYTES = 1 << 16
"""Enough for a name and a path; as Python objects a body may take thirty times as much."""
PAGE_SIZE = 100
"""Models in one response of GET /models."""

_ENTRY: dict[str, Schema] = {"modelName": TEXT, "modelUrl": TEXT}
_VERSION = {"version": TEXT, "state": TEXT, "status": struct({"error_code": TEXT, "error_message": TEXT})}
_MODEL = struct({"model_version_status": array(struct(_VERSION))})
SCHEMAS = {
    "LoadModel": struct({"model_name": MODEL_NAME, "url": TEXT}),
    "LoadedModel": struct(_ENTRY, {"success": TEXT, "model": _MODEL}),
    "LoadedModels": struct({"models": array(struct(_ENTRY))}, {"next_page_token": TEXT, "nextPageToken": TEXT}),
}
"""The bodies of the routes."""
TARGET = header(TARGET_MODEL, "The model's folder or archive below the models directory.")
_TOKEN = {"name": "next_page_token", "in": "query", "description": "Of an earlier response.", "schema": TEXT}


def multi_model_blueprint(loader: ModelLoader, state: LoadedModels, invoke: Callable[[str], Response]) -> Blueprint:
    """Return the routes; ``invoke`` answers the current request with a model."""
    blueprint = Blueprint("Multi-model mode", __name__)

    @blueprint.post("/models")
    @described(json_operation("LoadedModel", OF_A_LOAD | {408}, body="LoadModel"))
    def load() -> Response:
        """Load a model."""
        if (request.content_length or 0) > MAX_LOAD_BYTES:
            drain_body(request.environ)
            raise TooLarge(f"the body: expected at most {MAX_LOAD_BYTES} bytes, got {request.content_length}")
        wanted = _read_object(request.get_data(cache=False))
        name, source = wanted.get("model_name"), Source(wanted.get("url"))
        try:
            loaded = loader.load(name, source, g.context)
        except DeadlineExceeded as late:
            raise LoadTimeout(late.message) from late
        except ModelNotFound as missing:
            awss = f"Could not find valid base path {source.shown} for servable {name}"
            raise ModelNotFound(f"{missing.message}. {awss}") from missing
        return _json(_entry(loaded) | {"success": f"Successfully loaded model {loaded.model.name}."})

    @blueprint.get("/models", endpoint="list")
    @described(json_operation("LoadedModels", parameters=[_TOKEN]))
    def list_models() -> Response:
        """Loaded models."""
        return _json(_page(state, request.args.get("next_page_token")))

    @blueprint.get("/models/<name>")
    @described(json_operation("LoadedModel", OF_A_MODEL))
    def describe(name: str) -> Response:
        """A loaded model."""
        loaded = state.get(name)
        versions = loader.versions(name, g.context)
        return _json(_entry(loaded) | ({} if versions is None else {"model": _status(versions)}))

    @blueprint.delete("/models/<name>")
    @described(json_operation("LoadedModel", OF_A_LOAD))
    def unload(name: str) -> Response:
        """Unload a model."""
        return _json(_entry(loader.unload(name, g.context)) | {"success": f"Successfully unloaded model {name}."})

    @blueprint.post("/models/<name>/invoke")
    @described(_invocation)
    def invoke_model(name: str) -> Response:
        """Predict with a loaded model."""
        state.get(name)
        return invoke(name)

    return blueprint


def _invocation(served: Served, model: DescribedModel | None) -> Operation:
    found = invocation(served, model)
    found["parameters"].remove(ref(TARGET_MODEL, "parameters"))
    return found


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        value = from_json(body)
    except (ValueError, RecursionError):
        raise MalformedBody('the body: expected JSON such as {"model_name": "a", "url": "/opt/ml/models/a"}') from None
    if not isinstance(value, dict):
        raise MalformedBody('the body: expected a JSON object with "model_name" and "url"')
    return value


def _entry(loaded: LoadedModel) -> dict[str, str]:
    return {"modelName": loaded.model.name, "modelUrl": loaded.url}


def _status(versions: Mapping[int, VersionStatus]) -> dict[str, Any]:
    """Return versions in the form of TensorFlow Serving's REST API, the highest first."""
    return {
        "model_version_status": [
            {"version": str(number), "state": status.state, "status": _version_status(status.error)}
            for number, status in sorted(versions.items(), reverse=True)
        ]
    }


def _version_status(error: str) -> dict[str, str]:
    code, _, message = error.partition(": ")
    return {"error_code": code or "OK", "error_message": without_folders(message)}


def _page(state: LoadedModels, token: str | None) -> dict[str, Any]:
    """Return one page in the order of names; the token is the last name of the previous page."""
    loaded = state.all()
    names = sorted(name for name in loaded if token is None or name > token)
    if token is not None and len(token) > LONGEST_NAME:
        raise BadRequest("next_page_token: expected the value of an earlier response")
    page: dict[str, Any] = {"models": [_entry(loaded[name]) for name in names[:PAGE_SIZE]]}
    if len(names) > PAGE_SIZE:
        page["next_page_token"] = page["nextPageToken"] = names[PAGE_SIZE - 1]
    return page


def _json(value: Any) -> Response:
    return Response(json_body(value), mimetype="application/json")
