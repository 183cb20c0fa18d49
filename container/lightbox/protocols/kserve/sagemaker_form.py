"""The protocol on /invocations, as SageMaker's Triton containers have it: the JSON's length is in the Content-Type.

https://docs.aws.amazon.com/sagemaker/latest/dg/deploy-models-frameworks-triton.html
"""

from __future__ import annotations

from collections.abc import Callable

from lightbox.codecs.base import Answer
from lightbox.codecs.media_type import parse_content_type
from lightbox.errors import MalformedBody
from lightbox.pipeline import Pipeline
from lightbox.protocols.kserve.rest_answers import JSON_LENGTH, encode_answer
from lightbox.protocols.kserve.rest_request import read_body
from lightbox.protocols.kserve.sagemaker_headers import read_headers
from lightbox.telemetry.clock import RequestClock

MEDIA_TYPE = "application/vnd.sagemaker-triton.binary+json"
SIZE = "json-header-size"


def is_named(content_type: str) -> bool:
    """Tell whether a Content-Type is this form's."""
    return content_type[: len(MEDIA_TYPE)].lower() == MEDIA_TYPE and parse_content_type(content_type).name == MEDIA_TYPE


def answer(
    pipeline: Pipeline,
    body: bytes,
    content_type: str,
    model: str | None,
    header: Callable[[str], str | None],
    clock: RequestClock,
) -> Answer:
    """Answer a body in this form, in this form where the answer has blobs, else in JSON. Raises LightboxError."""
    size = parse_content_type(content_type).parameters.get(SIZE)
    if size is None:
        raise MalformedBody(f"Content-Type: expected {MEDIA_TYPE};{SIZE}=N, the length of the JSON; got no {SIZE}")
    headers = read_headers(header)
    asked = read_body(pipeline, body, (f"Content-Type: {SIZE}", size), model, headers.version, headers, clock)
    found = pipeline.infer(asked.tensors(model, "", headers), clock)
    with clock.stage("postprocess"):
        plain = encode_answer(found, asked)
    if JSON_LENGTH not in plain.headers:
        return plain
    return Answer(plain.body, f"{MEDIA_TYPE};{SIZE}={plain.headers[JSON_LENGTH]}")
