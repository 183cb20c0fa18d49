"""SageMaker's routes in OpenAPI, with additions from the codecs and the features."""

from __future__ import annotations

from lightbox.core.operations import (
    Description,
    Operation,
    Served,
    errors,
    header,
    invocation,
    path_parameter,
    prediction,
    response,
)
from lightbox.openapi.models import DescribedModel
from lightbox.openapi.schemas import BINARY, TEXT, Schema, struct

STREAM_TYPE = "application/vnd.amazon.eventstream"
STREAM_ACCEPT = "X-Amzn-SageMaker-Accept"
"""Content type of the payloads inside the events; Accept refers to the stream itself."""
STREAM_CONTENT_TYPE = "X-Amzn-SageMaker-Content-Type"


def ping(ready: bool) -> dict[str, bool]:
    """Whether requests can be served."""
    return {}


def describe() -> Description:
    """Return the schema and the probe of SageMaker's own API."""
    number: Schema = {"type": "integer", "minimum": 1}
    batch = {"MaxConcurrentTransforms": number, "BatchStrategy": {"const": "MULTI_RECORD"}, "MaxPayloadInMB": number}
    return Description(
        schemas={"ExecutionParameters": struct(batch)},
        probes={"/ping": ping},
        tag="SageMaker",
    )


def endpoint(served: Served, model: DescribedModel | None) -> Operation:
    """Return the operation of InvokeEndpoint."""
    return _as_endpoint(invocation(served, model))


def response_stream(served: Served, model: DescribedModel | None) -> Operation:
    """Return the operation of InvokeEndpointWithResponseStream."""
    ok = response("A stream of PayloadPart events.", {STREAM_TYPE: BINARY})
    ok["headers"][STREAM_CONTENT_TYPE] = {"description": "Media type of the payloads.", "schema": TEXT}
    found = prediction(served, ok)
    inside = "Media type of the payloads inside the events; the default is JSON lines."
    found["parameters"].append(header(STREAM_ACCEPT, inside))
    return _as_endpoint(found)


def _as_endpoint(found: Operation) -> Operation:
    """Return an operation as on SageMaker's own route: failures of the container are ModelErrors."""
    found["parameters"].append(path_parameter("name", "The endpoint's name; any name is accepted."))
    found["responses"] = {"200": found["responses"]["200"], **errors((400, 404, 424))}
    return found
