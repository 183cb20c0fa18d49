"""The routes of the Open Inference Protocol in OpenAPI, and its bodies on SageMaker's routes."""

from __future__ import annotations

from collections.abc import Sequence

from lightbox.core.edge import MODEL_HEADER
from lightbox.core.http import TARGET_MODEL
from lightbox.features.open_inference.schemas import example as example_of
from lightbox.features.open_inference.schemas import schemas
from lightbox.features.open_inference.tensors import JSON_LENGTH, TRITON_TYPE
from lightbox.openapi import failures
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.operations import (
    BODY,
    JSON,
    REQUEST_IDS,
    Description,
    Operation,
    Route,
    Served,
    changed,
    example,
    front,
    get,
    header,
    response,
)
from lightbox.openapi.schemas import BINARY, TEXT, Schema, array, ref
from lightbox.sagemaker.custom_attributes import CUSTOM_ATTRIBUTES

_TAG = "Open Inference Protocol"
_READY: Schema = {
    "type": "object",
    "properties": {"name": TEXT, "ready": {"const": True}},
    "required": ["name", "ready"],
}
_EMPTY: Schema = {"type": "object", "maxProperties": 0}


def describe(models: Sequence[DescribedModel]) -> Description:
    """Return the protocol's routes, and what SageMaker's routes take of it."""
    return Description(
        routes=_ROUTES,
        front={
            ("GET", "/v2/health/live"): Route(
                "live", _TAG, front("Whether the server runs", {JSON: ref("Live")}, None)
            ),
            ("GET", "/v2/health/ready"): Route(
                "server_ready", _TAG, front("Whether requests can be served", {JSON: ref("Ready")}, "NotReady")
            ),
        },
        schemas=schemas(models),
        requests={TRITON_TYPE: [BINARY]},
        # A Triton container's body is answered with the protocol's JSON, where no output is a blob.
        responses={JSON: [ref(f"{model.name}.infer_response") for model in models], TRITON_TYPE: [BINARY]},
    )


def _infer(served: Served, model: DescribedModel | None) -> Operation:
    of_sagemaker = [ref(CUSTOM_ATTRIBUTES, "parameters")]
    if served.any_model:
        of_sagemaker.append(ref(TARGET_MODEL, "parameters"))
    sent = ref(f"{model.name}.infer_request") if model else ref("InferRequest")
    got = ref(f"{model.name}.infer_response") if model else ref("InferResponse")
    shown = example_of(model.default) if model and model.default else None
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
        "parameters": [length, *of_sagemaker, *REQUEST_IDS],
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


_SERVER = get("Server metadata", "The server.", ref("ServerMetadata"))
_METADATA = get("Inputs and outputs of a model", "The model.", ref("ModelMetadata"), failures.OF_A_MODEL)
_ROUTES = {
    ("GET", "/v2"): Route("server", _TAG, _SERVER),
    ("GET", "/v2/"): Route("server_slash", _TAG, _SERVER),
    ("GET", "/v2/models/<model>"): Route("metadata", _TAG, _METADATA, by_model=True),
    ("GET", "/v2/models/<model>/versions/<version>"): Route("metadata_of_version", _TAG, _METADATA, by_model=True),
    ("GET", "/v2/models/<model>/ready"): Route(
        "ready", _TAG, get("Whether a model can answer", "It can.", _READY, failures.OF_A_MODEL), by_model=True
    ),
    ("GET", "/v2/models/<model>/versions/<version>/ready"): Route(
        "ready_of_version",
        _TAG,
        get("Whether a version can answer", "It can.", _READY, failures.OF_A_MODEL),
        by_model=True,
    ),
    ("POST", "/v2/models/<model>/infer"): Route("infer", _TAG, _infer, by_model=True),
    ("POST", "/v2/models/<model>/versions/<version>/infer"): Route("infer_version", _TAG, _infer, by_model=True),
    ("POST", "/v2/repository/index"): Route("repository_index", _TAG, _index),
    ("POST", "/v2/repository/models/<model>/load"): Route(
        "repository_load", _TAG, changed("Load a model", _EMPTY), changes_models=True
    ),
    ("POST", "/v2/repository/models/<model>/unload"): Route(
        "repository_unload", _TAG, changed("Unload a model", _EMPTY), changes_models=True
    ),
}
