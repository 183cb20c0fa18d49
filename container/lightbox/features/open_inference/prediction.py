"""The prediction of a request of the protocol, for REST and gRPC."""

from __future__ import annotations

from lightbox.base.request_context import RequestContext
from lightbox.core.attributes import CustomAttributes
from lightbox.core.pipeline import Pipeline
from lightbox.core.request import TensorResponse
from lightbox.features.open_inference.classification import classified
from lightbox.features.open_inference.requests import InferRequest


def predicted(
    pipeline: Pipeline,
    asked: InferRequest,
    model: str | None,
    version: str,
    attributes: CustomAttributes,
    context: RequestContext,
) -> TensorResponse:
    """Return the outputs; ``version`` is the one in the path or message, "" for none. Raises as Pipeline.run."""
    # Before the prediction: it may be unloaded after.
    options = pipeline.catalogue.find(model).options
    found = pipeline.run(asked.call(pipeline.codecs, model, version, attributes), context)
    if not asked.classes:
        return found
    with context.stage("postprocess"):
        return classified(found, asked.classes, options, context.memory)
