"""Bodies of inference requests, whichever header tells where their JSON ends: with JSON, or one bare input."""

from __future__ import annotations

from lightbox.codecs.tensors import string_tensor
from lightbox.codecs.text import check_size
from lightbox.errors import InputMismatch, MalformedBody
from lightbox.images.decode import is_image
from lightbox.model_spec import Array, SignatureSpec, TensorSpec, image_input
from lightbox.pipeline import Pipeline
from lightbox.protocols.kserve.datatypes import described, from_buffer, numeric_dtype
from lightbox.protocols.kserve.requests import InferRequest
from lightbox.protocols.kserve.rest_body import parse_body
from lightbox.protocols.kserve.sagemaker_headers import SageMakerHeaders
from lightbox.telemetry.clock import RequestClock


def read_body(
    pipeline: Pipeline,
    body: bytes,
    header: tuple[str, str | None],
    model: str | None,
    version: int | None,
    headers: SageMakerHeaders,
    clock: RequestClock,
) -> InferRequest:
    """Return what a body asks of a model; ``header`` is where the length of its JSON stands, and what stands there.

    Without a length all of the body is JSON; with a length of 0 it is one input. Raises MalformedBody and
    InputMismatch.
    """
    name, text = header
    clock.memory.weigh(len(body))
    if text is not None and not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise MalformedBody(f"{name}: expected the length of the JSON in bytes, got {text[:40]!r}")
    length = None if text is None else int(text)
    if length == 0:
        return raw_request(body, pipeline.describe(model, version, clock, headers.signature))
    if length is not None and length > len(body):
        raise MalformedBody(f"{name}: the JSON is said to be {length} bytes, the body has {len(body)}")
    check_size(body, pipeline.max_text_mb, length)
    with clock.stage("decode"):
        return parse_body(body, length, clock)


def raw_request(body: bytes, signature: SignatureSpec) -> InferRequest:
    """Return the request whose body is one input's data and nothing else, as a JSON length of 0 says."""
    if len(signature.inputs) != 1:
        raise InputMismatch(
            f"a body without JSON is one input; the model {signature.model!r} takes "
            f"{', '.join(map(str, signature.inputs.values()))}"
        )
    ((name, spec),) = signature.inputs.items()
    if spec.is_string or (image_input(signature) and is_image(body)):
        shape = spec.shape if spec.is_string and spec.shape is not None else (None,)
        return InferRequest({name: string_tensor([body]).reshape([1] * len(shape))}, binary_default=True)
    return InferRequest({name: _raw_numbers(spec, body)}, binary_default=True)


def _raw_numbers(spec: TensorSpec, body: bytes) -> Array:
    """Return the numbers of a body; its size settles the one dimension that the signature leaves open."""
    datatype = described(spec)["datatype"]
    size = numeric_dtype(spec.name, datatype).itemsize
    shape = spec.shape
    if shape is None or shape.count(None) > 1:
        raise InputMismatch(f"input {spec.name}: the shape of a body without JSON is open in {spec}")
    for known in shape:
        size *= 1 if known is None else known
    count = len(body) // size if size else 0
    return from_buffer(spec.name, datatype, tuple(count if n is None else n for n in shape), body)
