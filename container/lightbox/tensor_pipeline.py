"""The story of a request whose protocol carries tensors: images decoded, user code asked, predict, tensors back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lightbox.codecs.base import Answer
from lightbox.codecs.decoded import encoded_images
from lightbox.codecs.image import ImageCodec
from lightbox.errors import BadRequest
from lightbox.invocation import Invocation
from lightbox.model.arrays import string_tensor
from lightbox.model.signatures import Signatures
from lightbox.model.spec import Array, SignatureSpec
from lightbox.plan import PlannedModel
from lightbox.request_context import RequestClock
from lightbox.tensor_request import TensorAnswer, TensorRequest
from lightbox.transports.base import PredictCall, Transport
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.handlers import HandlerAnswer, finish_tensors, prepare
from lightbox.user_code.registry import NONE, Handlers
from lightbox.user_code.request import Request

IMAGE = "application/x-image"
ANSWER = "answer"
"""The output that holds the bodies of user code that makes bodies."""
Invoke = Callable[[Invocation, RequestClock], Answer]
"""Answers a body as /invocations does; for handlers of AWS's API, which know nothing but bodies."""


class TensorPipeline:
    """Answers with tensors; safe to use from several threads.

    User code is asked as on /invocations where that can be: ``preprocess`` and handlers of AWS's API for encoded
    images, ``postprocess`` always. But outputs that a request names, and that the signature has, are the model's own.
    """

    def __init__(self, images: ImageCodec, signatures: Signatures, invoke: Invoke) -> None:
        self._image_codec = images
        self._signatures = signatures
        self._invoke = invoke

    def infer(
        self, code: Handlers, model: PlannedModel, transport: Transport, clock: RequestClock, request: TensorRequest
    ) -> TensorAnswer:
        """Return the outputs, or raise a LightboxError."""
        signature = self._signatures.get(transport, model.name, request.version, request.signature, clock)
        images = encoded_images(request.inputs, signature)
        names_own = bool(request.outputs) and all(name in signature.outputs for name in request.outputs)
        if isinstance(code, AwsHandlers):
            if images and not names_own:
                return _selected(signature, self._bodies(images, signature, clock, request), request.outputs)
            code = NONE
        shown = self._shown(images, signature, model, clock, request)
        if images and code.preprocess is not None:
            with clock.stage("preprocess"):
                inputs: Mapping[str, Array] = prepare(code.preprocess, shown)
        elif images:
            inputs = self._image_codec.decode(images, signature, model.options, clock)
        else:
            inputs = request.inputs
            self._image_codec.check_among(inputs.values(), clock)
        postprocess = None if names_own else code.postprocess
        outputs = (() if postprocess else request.outputs) or model.options.outputs or ()
        signature.check_outputs(outputs)
        signature.check_inputs(inputs)
        clock.memory.hold_tensors(clock.memory.weight, inputs.values())
        found = transport.predict(PredictCall(signature, inputs, outputs), clock)
        predicted = {name: found[name] for name in signature.outputs if name in found}
        if postprocess is not None:
            with clock.stage("postprocess"):
                predicted = _as_tensors(finish_tensors(postprocess, predicted, shown))
        return _selected(signature, predicted, request.outputs)

    def _bodies(
        self, images: tuple[bytes, ...], signature: SignatureSpec, clock: RequestClock, request: TensorRequest
    ) -> dict[str, Array]:
        """Return what a handler of AWS's API answers to each image, as one tensor of byte strings."""
        self._image_codec.check(images, clock)  # all of them: the handler is asked for one at a time
        invocation = Invocation(
            body=b"",
            content_type=IMAGE,
            custom_attributes=request.custom_attributes,
            attributes=request.attributes,
            model=signature.model,
            version=request.version,
            signature=request.signature,
            transport=request.transport,
        )
        bodies = [self._invoke(replace(invocation, body=image), clock).body for image in images]
        return {ANSWER: string_tensor(bodies)}

    def _shown(
        self,
        images: tuple[bytes, ...],
        signature: SignatureSpec,
        model: PlannedModel,
        clock: RequestClock,
        request: TensorRequest,
    ) -> Request:
        return Request(
            body=images[0] if len(images) == 1 else b"",
            content_type=IMAGE if images else "",
            accept="",
            custom_attributes=request.attributes,
            signature=signature,
            options=model.options,
            original_images=self._image_codec.originals(lambda: images, clock),
        )


def _as_tensors(finished: dict[str, Array] | HandlerAnswer) -> dict[str, Array]:
    return {ANSWER: string_tensor([finished.body])} if isinstance(finished, HandlerAnswer) else finished


def _selected(signature: SignatureSpec, outputs: Mapping[str, Array], names: tuple[str, ...]) -> TensorAnswer:
    unknown = [name for name in names if name not in outputs]
    if unknown:
        raise BadRequest(
            f"outputs: the user's code gives {', '.join(outputs)}, the model {', '.join(signature.outputs)}; "
            f"got {', '.join(unknown)}"
        )
    return TensorAnswer(signature, {name: outputs[name] for name in names or outputs})
