"""Errors in the document: a response for each HTTP status, with the codes that have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lightbox.core.error_bodies import REQUEST_ID_HEADER
from lightbox.core.errors import STATUS_OF_CODE
from lightbox.openapi.schemas import Schema, struct

ANYWHERE = frozenset({"bad_request", "too_large", "internal", "unavailable", "deadline_exceeded", "no_room"})
"""Of every route that a worker answers; nginx has some of them, too."""
OF_A_MODEL = ANYWHERE | {"model_not_found"}
OF_A_PREDICTION = OF_A_MODEL | {
    "image_undecodable",
    "input_mismatch",
    "malformed_body",
    "unsupported_media_type",
    "not_acceptable",
    "model_failed",
}
OF_A_LOAD = OF_A_MODEL | {"already_loaded", "malformed_body", "handler_failed"}

MODEL_ERROR = 424
"""SageMaker's status for whatever its model container refuses, on its own routes."""
_WITHOUT_CODE = {408: "deadline_exceeded", 414: "bad_request", 431: "bad_request"}
"""Statuses that are no code's own: a load on AWS's route that takes too long, and nginx's refusals of long lines."""
_OF_NGINX = (414, 431)
_WHOLE = {"4XX": "The user's code may refuse a request with any status of the 4xx.", "5XX": "The user's code failed."}


def codes_of_status() -> dict[int, list[str]]:
    """Return the error codes that each HTTP status may have."""
    found: dict[int, list[str]] = {}
    for code, status in STATUS_OF_CODE.items():
        found.setdefault(status.http, []).append(code)
    for http, code in _WITHOUT_CODE.items():
        found.setdefault(http, []).append(code)
    return dict(sorted(found.items()))


def component_name(status: int | str) -> str:
    """Return what the response with a status is called among the components."""
    return f"Error{status}"


def statuses(codes: Iterable[str], of_nginx: bool = True) -> list[int]:
    """Return the statuses of these codes, and those of nginx's own refusals."""
    return sorted({STATUS_OF_CODE[code].http for code in codes} | set(_OF_NGINX if of_nginx else ()))


def error_schema(**more: Schema) -> Schema:
    """Return the error body; ``more`` are other keys that it has."""
    error: dict[str, Schema] = {
        "error": {"type": "string", "description": "What was expected and what came, in a sentence."},
        "code": {"type": "string", "enum": [*STATUS_OF_CODE]},
        "request_id": {"type": "string"},
    }
    return struct(error | more)


def error_schemas() -> dict[str, Schema]:
    """Return the error body, and SageMaker's."""
    original = {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"$ref": "#/components/schemas/Error"},
    }
    return {
        "Error": error_schema(),
        "ModelError": struct(
            {
                "Message": {"type": "string"},
                "OriginalStatusCode": {"type": "integer", "minimum": 400, "maximum": 599},
                "OriginalMessage": original,
                "LogStreamArn": {"type": "string"},
            }
        ),
    }


def error_responses() -> dict[str, Any]:
    """Return the component responses: one for each status, and those of user code and of SageMaker's routes."""
    found = {component_name(status): _response(status, codes) for status, codes in codes_of_status().items()}
    found |= {component_name(status): _body("Error", text) for status, text in _WHOLE.items()}
    model_error = _body("ModelError", "SageMaker's ModelError. OriginalMessage holds the error, as JSON.")
    model_error["headers"]["x-amzn-ErrorType"] = {"required": True, "schema": {"const": "ModelError"}}
    return found | {component_name(MODEL_ERROR): model_error}


def _response(status: int, codes: list[str]) -> dict[str, Any]:
    found = _body("Error", f"code: {' or '.join(codes)}")
    only = {"type": "object", "properties": {"code": {"enum": codes}}}
    found["content"]["application/json"]["schema"] = {"allOf": [{"$ref": "#/components/schemas/Error"}, only]}
    if status == 503:
        found["headers"]["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    if status == 405:
        found["headers"]["Allow"] = {"schema": {"type": "string"}}
    return found


def _body(schema: str, text: str) -> dict[str, Any]:
    return {
        "description": text,
        "headers": {REQUEST_ID_HEADER: {"$ref": f"#/components/headers/{REQUEST_ID_HEADER}"}},
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }
