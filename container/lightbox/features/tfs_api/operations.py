"""The operations of TensorFlow Serving's REST API, where LIGHTBOX_TFS_API is on."""

from __future__ import annotations

from lightbox.features.tfs_api.rest import MODEL, VERBS, WHICH
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.operations import (
    JSON,
    REQUEST_IDS,
    Describe,
    Description,
    Operation,
    Route,
    Served,
    path_parameter,
    response,
)
from lightbox.openapi.schemas import TEXT, Schema

_TAG = "TensorFlow Serving"
_ERROR: Schema = {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}
_SENT = {
    "predict": ("instances", "inputs"),
    "classify": ("examples",),
    "regress": ("examples",),
}
"""The keys of each call's body; one of them must be there."""


def _operation(summary: str, which: str, schema: Schema) -> Operation:
    ok = response("As TensorFlow Serving answers.", {JSON: schema})
    # The text is the model server's, with further keys where Lightbox refuses; an empty body for some malformed paths.
    failed = {status: response("What is wrong.", {JSON: _ERROR}, by_worker=False) for status in ("4XX", "5XX")}
    parameters = [*REQUEST_IDS]
    if "label" in which:
        parameters.append(path_parameter("label", "A label that the model server has for a version."))
    return {"summary": summary, "parameters": parameters, "responses": {"200": ok, **failed}}


def _call(verb: str, which: str) -> Describe:
    def describe(served: Served, _: DescribedModel | None) -> Operation:
        keys = _SENT[verb]
        sent: Schema = {"type": "object", "anyOf": [{"required": [key]} for key in keys]}
        got: Schema = {"type": "object", "minProperties": 1, "maxProperties": 1}
        body = {"required": True, "content": {JSON: {"schema": sent}}}
        return _operation(verb.capitalize(), which, got) | {"requestBody": body}

    return describe


def _look(summary: str, which: str, key: str) -> Describe:
    def describe(served: Served, _: DescribedModel | None) -> Operation:
        return _operation(summary, which, {"type": "object", "required": [key]})

    return describe


def _routes() -> dict[tuple[str, str], Route]:
    found = {}
    for which in WHICH:
        rule, suffix = f"/v1{MODEL}{which}", which.partition("<")[2].removesuffix(">")
        name = f"_of_{suffix}" if suffix else ""
        status = _look("State of a model's versions", which, "model_version_status")
        found["GET", rule] = Route(f"tfs_status{name}", _TAG, status)
        metadata = _look("Signatures of a model", which, "metadata")
        found["GET", f"{rule}/metadata"] = Route(f"tfs_metadata{name}", _TAG, metadata)
        for verb in VERBS:
            found["POST", f"{rule}:{verb}"] = Route(f"tfs_{verb}{name}", _TAG, _call(verb, which))
    return found


DESCRIPTION = Description(routes=_routes())
