"""The models of this start: signatures, options, user code."""

from __future__ import annotations

from contextlib import suppress

from lightbox.core.errors import LightboxError, UnknownSignature
from lightbox.core.pipeline import Pipeline
from lightbox.core.request_context import RequestContext
from lightbox.openapi.models import DescribedModel
from lightbox.user_code.aws import AwsHandlers

_NO_NAME = "\ufffd"
"""A signature that no model has: asking for it tells which ones there are."""


def described_models(pipeline: Pipeline, context: RequestContext) -> list[DescribedModel]:
    """Return the models that can be asked for now, the default one first; one that cannot answer is left out."""
    names = pipeline.models()
    with suppress(LightboxError):
        default = pipeline.served()[0].name
        names = [default, *(name for name in names if name != default)]
    found = []
    for name in names:
        context.check()
        with suppress(LightboxError):
            found.append(_described(pipeline, name, context))
    return found


def _described(pipeline: Pipeline, name: str, context: RequestContext) -> DescribedModel:
    model, handlers = pipeline.served(name)
    known: tuple[str, ...] = ()
    try:
        pipeline.describe(name, None, context, _NO_NAME)
    except UnknownSignature as error:
        known = error.known
    signatures = []
    with suppress(UnknownSignature):  # of several, none may be the default one
        signatures.append(pipeline.describe(name, None, context))
    first = [signature.name for signature in signatures]
    signatures += [pipeline.describe(name, None, context, other) for other in known if other not in first]
    return DescribedModel(
        name,
        tuple(signatures),
        bool(first),
        model.options,
        isinstance(handlers, AwsHandlers) or handlers.preprocess is not None,
        isinstance(handlers, AwsHandlers) or handlers.postprocess is not None,
    )
