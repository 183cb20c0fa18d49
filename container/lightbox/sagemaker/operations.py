"""SageMaker's routes in OpenAPI, with additions from the codecs and the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightbox.codecs import MAYBE_IMAGE_TYPES
from lightbox.core.edge import MODEL_HEADER
from lightbox.core.http import TARGET_MODEL
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.operations import (
    BODY,
    REQUEST_IDS,
    Description,
    Operation,
    Served,
    errors,
    example,
    header,
    path_parameter,
    response,
)
from lightbox.openapi.schemas import BINARY, TEXT, Schema, any_of, ref, struct
from lightbox.sagemaker import STREAM_ACCEPT, STREAM_CONTENT_TYPE, STREAM_TYPE
from lightbox.sagemaker.custom_attributes import CUSTOM_ATTRIBUTES, KNOWN_PAIRS

TARGET = header(TARGET_MODEL, "The model's folder or archive below the models directory.")


def ping(ready: bool) -> dict[str, bool]:
    """Whether requests can be served."""
    return {}


def describe(models: Sequence[DescribedModel]) -> Description:
    """Return the headers that SageMaker's own API adds to its routes."""
    about = f"Pairs of name=value, separated by commas. Lightbox reads {', '.join(KNOWN_PAIRS)}."
    named: dict[str, Any] = {"example": f"tfs-model-name={models[0].name}"} if models else {}
    number: Schema = {"type": "integer", "minimum": 1}
    batch = {"MaxConcurrentTransforms": number, "BatchStrategy": {"const": "MULTI_RECORD"}, "MaxPayloadInMB": number}
    return Description(
        schemas={"ExecutionParameters": struct(batch)},
        probes={"/ping": ping},
        tag="SageMaker",
        parameters={CUSTOM_ATTRIBUTES: header(CUSTOM_ATTRIBUTES, about, **named)},
    )


def invocations(served: Served, model: DescribedModel | None) -> Operation:
    """Return the operation of /invocations."""
    ok = response("The predictions.", _response_content(served))
    ok["headers"] |= {name: {"schema": TEXT} for writer in served.writers.values() for name in writer.headers}
    return _invocation(served, ok)


def endpoint(served: Served, model: DescribedModel | None) -> Operation:
    """Return the operation of InvokeEndpoint."""
    return _as_endpoint(invocations(served, model))


def response_stream(served: Served, model: DescribedModel | None) -> Operation:
    """Return the operation of InvokeEndpointWithResponseStream."""
    ok = response("A stream of PayloadPart events.", {STREAM_TYPE: BINARY})
    ok["headers"][STREAM_CONTENT_TYPE] = {"description": "Media type of the payloads.", "schema": TEXT}
    found = _invocation(served, ok)
    inside = "Media type of the payloads inside the events; the default is JSON lines."
    found["parameters"].append(header(STREAM_ACCEPT, inside))
    return _as_endpoint(found)


def _invocation(served: Served, ok: Operation) -> Operation:
    added = served.descriptions
    headers = [name for description in added for name in description.headers]
    ok["headers"] |= {name: ref(name, "headers") for name in (*headers, MODEL_HEADER)}
    without_body = [description.without_body for description in added if description.without_body]
    return {
        "parameters": [*(ref(name, "parameters") for each in added for name in each.parameters), *REQUEST_IDS],
        "requestBody": {
            "required": not without_body,
            "content": _request_content(served),
            "description": " ".join([BODY, *without_body]),
        },
        "responses": served.prediction(ok),
    }


def _as_endpoint(found: Operation) -> Operation:
    """Return an operation as on SageMaker's own route: failures of the container are ModelErrors."""
    found["parameters"].append(path_parameter("name", "The endpoint's name; any name is accepted."))
    found["responses"] = {"200": found["responses"]["200"], **errors((400, 404, 424))}
    return found


def _request_content(served: Served) -> dict[str, Any]:
    """Return the media types of requests that the models of this start can take."""
    images = served.any_model or any(model.takes_images for model in served.models)
    forms: dict[str, Sequence[Schema]] = {}
    shown: dict[str, Any] = {}
    for codec in served.readers:
        if images or not codec.of_images:
            forms |= dict.fromkeys(codec.media_types, codec.request_schemas(served.models))
            shown |= dict.fromkeys(codec.media_types, codec.example(served.models[0]) if served.models else None)
    if images:
        forms[MAYBE_IMAGE_TYPES[0]] = [BINARY]
    content = _with_added(forms, [description.requests for description in served.descriptions])
    found = {name: {"schema": schema} | example(shown.get(name)) for name, schema in content.items()}
    return found | ({"*/*": {}} if served.any_request else {})


def _response_content(served: Served) -> dict[str, Schema]:
    """Return the media types of responses, with schemas."""
    one_output = served.any_model or any(model.has_one_output for model in served.models)
    models = [] if served.any_response else served.models
    forms = {
        media_type: codec.response_schemas(models)
        for media_type, codec in served.writers.items()
        if one_output or not codec.single
    }
    content = _with_added(forms, [description.responses for description in served.descriptions])
    return content | ({"*/*": {}} if served.any_response else {})


def _with_added(
    forms: Mapping[str, Sequence[Schema]], added: Sequence[Mapping[str, Sequence[Schema]]]
) -> dict[str, Schema]:
    """Return a schema for each media type; an empty schema for types without forms of their own."""
    found = {media_type: [*schemas] for media_type, schemas in forms.items()}
    for more in added:
        for media_type, schemas in more.items():
            if media_type not in forms or forms[media_type]:
                found.setdefault(media_type, []).extend(schemas)
    return {media_type: any_of(schemas) for media_type, schemas in found.items()}
