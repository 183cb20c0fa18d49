"""The models of this start as the document describes them: signatures, options, user code."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lightbox.core.errors import LightboxError, UnknownSignature
from lightbox.core.pipeline import Pipeline
from lightbox.core.request_context import RequestContext
from lightbox.features.openapi.tensors import (
    Schema,
    any_of,
    array,
    chosen,
    infer_input,
    infer_output,
    request_body,
    response_body,
    struct,
)
from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec, image_input
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.registry import Handlers

_NO_NAME = "\ufffd"
"""A signature that no model has: asking for it tells which ones there are."""


@dataclass(frozen=True)
class DescribedModel:
    """A model; ``has_default`` tells that the first of ``signatures`` answers requests that name none."""

    name: str
    signatures: tuple[SignatureSpec, ...]
    has_default: bool
    options: ModelOptions
    handlers: Handlers

    @property
    def reads_any_body(self) -> bool:
        """Whether user code reads bodies of /invocations, whatever they are."""
        return isinstance(self.handlers, AwsHandlers) or self.handlers.preprocess is not None

    @property
    def writes_any_body(self) -> bool:
        """Whether user code writes responses of /invocations, whatever they are."""
        return isinstance(self.handlers, AwsHandlers) or self.handlers.postprocess is not None

    @property
    def default(self) -> SignatureSpec | None:
        """The signature of requests that name none, None where they must name one."""
        return self.signatures[0] if self.has_default else None

    @property
    def takes_images(self) -> bool:
        """Whether encoded images can be sent to it."""
        return any(image_input(signature) is not None for signature in self.signatures)

    @property
    def has_one_output(self) -> bool:
        """Whether media types that hold one output can carry a response."""
        return any(len(chosen(signature, self.options)) == 1 for signature in self.signatures)

    def schemas(self) -> dict[str, Schema]:
        """Return the model's component schemas by name. A model's name has no character that a component may not."""
        infer_request = any_of([_infer_request(signature) for signature in self.signatures])
        return {
            f"{self.name}.request": request_body(self.signatures, self.has_default),
            f"{self.name}.response": response_body(self.signatures, self.options),
            f"{self.name}.infer_request": infer_request,
            f"{self.name}.infer_response": self._infer_response(),
        }

    def _infer_response(self) -> Schema:
        forms = []
        for signature in self.signatures:
            outputs = chosen(signature, self.options) | dict(signature.outputs)
            items = [infer_output(spec) for spec in outputs.values()]
            if self.writes_any_body:
                items.append({"$ref": "#/components/schemas/InferOutput"})
            forms.append(infer_response(items, self.name))
        return any_of(forms)


def infer_response(outputs: list[Schema], model: str | None = None) -> Schema:
    """Return the response of the Open Inference Protocol, with outputs of these forms."""
    name: Schema = {"type": "string"} if model is None else {"const": model}
    return struct(
        {
            "model_name": name,
            "model_version": {"type": "string"},
            "outputs": array(any_of(outputs)),
            "id": {"type": "string"},
        },
        ["id"],
    )


def _infer_request(signature: SignatureSpec) -> Schema:
    count = len(signature.inputs)
    inputs = array(any_of([infer_input(spec) for spec in signature.inputs.values()]), count, count)
    if count > 1:  # in any order
        named = ({"type": "object", "properties": {"name": {"const": name}}} for name in signature.inputs)
        inputs["allOf"] = [{"contains": schema} for schema in named]
    parameters = {"$ref": "#/components/schemas/Parameters"}
    wanted = struct({"name": {"enum": [*signature.outputs]}, "parameters": parameters}, ["parameters"])
    return struct(
        {
            "id": {"type": "string"},
            "inputs": inputs,
            "outputs": array(wanted, 0, len(signature.outputs)) | {"uniqueItems": True},
            "parameters": parameters,
        },
        ["id", "outputs", "parameters"],
    )


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
    return DescribedModel(name, tuple(signatures), bool(first), model.options, handlers)
