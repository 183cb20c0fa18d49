"""The routes below /models in OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping

from lightbox.core.http import TARGET_MODEL
from lightbox.openapi import failures
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.operations import (
    JSON,
    MODEL_NAME,
    REQUEST_IDS,
    Description,
    Operation,
    Route,
    Served,
    changed,
    get,
    header,
    response,
)
from lightbox.openapi.schemas import TEXT, Schema, array, ref, struct
from lightbox.sagemaker.operations import invocations

_TAG = "Multi-model mode"


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
    found = get("Loaded models", "A page of models.", ref("LoadedModels"))(served, model)
    token = {"name": "next_page_token", "in": "query", "description": "Of an earlier response.", "schema": TEXT}
    return found | {"parameters": [token, *REQUEST_IDS]}


def _invoke(served: Served, model: DescribedModel | None) -> Operation:
    found = invocations(served, model) | {"summary": "Predict with a loaded model"}
    found["parameters"].remove(ref(TARGET_MODEL, "parameters"))
    return found


def _schemas() -> dict[str, Schema]:
    state = struct({"error_code": TEXT, "error_message": TEXT})
    status = struct({"version": TEXT, "state": TEXT, "status": state})
    entry: Mapping[str, Schema] = {"modelName": TEXT, "modelUrl": TEXT}
    about = struct({"model_version_status": array(status)})
    pages = {"next_page_token": TEXT, "nextPageToken": TEXT}
    return {
        "LoadModel": struct({"model_name": MODEL_NAME, "url": TEXT}),
        "LoadedModel": struct(dict(entry) | {"success": TEXT, "model": about}, ["success", "model"]),
        "LoadedModels": struct({"models": array(struct(entry))} | pages, [*pages]),
    }


DESCRIPTION = Description(
    routes={
        ("POST", "/models"): Route("load", _TAG, _load),
        ("GET", "/models"): Route("list", _TAG, _list),
        ("GET", "/models/<name>"): Route(
            "describe", _TAG, get("A loaded model", "The model.", ref("LoadedModel"), failures.OF_A_MODEL)
        ),
        ("DELETE", "/models/<name>"): Route("unload", _TAG, changed("Unload a model", ref("LoadedModel"))),
        ("POST", "/models/<name>/invoke"): Route("invoke_model", _TAG, _invoke),
    },
    schemas=_schemas(),
    parameters={TARGET_MODEL: header(TARGET_MODEL, "The model's folder or archive below the models directory.")},
)
