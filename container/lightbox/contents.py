"""What requests carry: a body of some media type, or tensors that a protocol has decoded."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import requests

from lightbox.call import Call, FindSignature
from lightbox.codecs import Codecs, check_single
from lightbox.codecs.base import DecodedRequest, Method, Parsed, Prediction, Response, Writer
from lightbox.errors import BadRequest
from lightbox.model.arrays import encoded_images, string_tensor
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec
from lightbox.plan import ModelServerAddress, PlannedModel
from lightbox.request_context import RequestContext
from lightbox.user_code.aws import AwsHandlers, Context, PortlessContext, rest_response
from lightbox.user_code.handlers import HandlerResponse, Request, finish, finish_tensors
from lightbox.user_code.loader import Function

IMAGE, JSON = "application/x-image", "application/json"
ANSWER = "answer"
"""The output that holds the bodies of user code that makes bodies."""


@dataclass(frozen=True)
class Invocation:
    """A body; ``content_type`` and ``accept`` are the raw headers, "" where there was none."""

    codecs: Codecs
    body: bytes
    content_type: str = ""
    accept: str = ""
    method: Method = Method.PREDICT
    outputs: tuple[str, ...] = ()

    def as_json(self, body: bytes) -> Invocation:
        """Return another body for the same method, JSON that is answered with JSON."""
        return replace(self, body=body, content_type=JSON, accept=JSON)

    def size(self, context: RequestContext) -> int:
        """See Content.size."""
        return len(self.body)

    def parse(self, context: RequestContext) -> Parsed:
        """See Content.parse."""
        return self.codecs.parse(self.body, self.content_type, self.method, context)

    def writer(self, by_user_code: bool) -> _BodyWriter:
        """See Content.writer."""
        return _BodyWriter(None if by_user_code else self.codecs.negotiate(self.accept))

    def has_images(self, signature: SignatureSpec) -> bool:
        """See Content.has_images: a preprocess reads every body."""
        return True

    def names_outputs_of(self, signature: SignatureSpec) -> bool:
        """See Content.names_outputs_of."""
        return False

    def shown(
        self, call: Call[Any], request: DecodedRequest, options: ModelOptions, context: RequestContext
    ) -> Request:
        """See Content.shown."""
        return Request(
            body=self.body,
            content_type=self.content_type,
            accept=self.accept,
            custom_attributes=call.attributes,
            signature=request.signature,
            options=options,
            original_images=self.codecs.originals(self.body, self.content_type, context, request.images),
        )

    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Invocation]:
        """See Content.for_handler."""
        return [self]

    def joined(self, responses: Sequence[Response], find: FindSignature) -> Response:
        """See Content.joined."""
        return responses[0]


@dataclass(frozen=True)
class _BodyWriter:
    codec: Writer | None

    def check(self, outputs: int) -> None:
        """See Writer.check."""
        if self.codec is not None:
            check_single(self.codec, outputs)

    def write(self, prediction: Prediction, signature: SignatureSpec) -> Response:
        """See Writer.write."""
        assert self.codec is not None, "the user's code writes the response"
        return self.codec.encode(prediction)

    def finish(
        self, postprocess: Function, outputs: Mapping[str, Array], shown: Request, signature: SignatureSpec
    ) -> Response:
        """See Writer.finish."""
        finished = finish(postprocess, outputs, shown)
        return Response(finished.body, finished.content_type)


@dataclass(frozen=True)
class TensorResponse:
    """The model's outputs in the order that was asked for, and the signature, thus the version, that gave them."""

    signature: SignatureSpec
    outputs: Mapping[str, Array]


@dataclass(frozen=True)
class TensorRequest:
    """Inputs by name, in the dtypes they came in; strings are object arrays of bytes.

    Byte strings for a model of pixels are encoded images. User code is asked as about a body where that can be:
    ``preprocess`` and handlers of AWS's API for encoded images, ``postprocess`` always. But ``outputs`` that the
    request names, and that the signature has, are the model's own.
    """

    codecs: Codecs
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...] = ()

    def size(self, context: RequestContext) -> int:
        """See Content.size."""
        return context.memory.weight

    def parse(self, context: RequestContext) -> Parsed:
        """See Content.parse."""

        def decode(signature: SignatureSpec, options: ModelOptions) -> DecodedRequest:
            images = encoded_images(self.inputs, signature)
            if images:
                return DecodedRequest(
                    signature, self.codecs.images.decode(images, signature, options, context), images=images
                )
            self.codecs.images.check_among(self.inputs.values(), context)
            return DecodedRequest(signature, dict(self.inputs))

        return Parsed(decode)

    def writer(self, by_user_code: bool) -> _TensorWriter:
        """See Content.writer."""
        return _TensorWriter(self.outputs)

    def has_images(self, signature: SignatureSpec) -> bool:
        """See Content.has_images."""
        return bool(encoded_images(self.inputs, signature))

    def names_outputs_of(self, signature: SignatureSpec) -> bool:
        """See Content.names_outputs_of."""
        return bool(self.outputs) and all(name in signature.outputs for name in self.outputs)

    def shown(
        self, call: Call[Any], request: DecodedRequest, options: ModelOptions, context: RequestContext
    ) -> Request:
        """See Content.shown."""
        images = encoded_images(self.inputs, request.signature)
        return Request(
            body=images[0] if len(images) == 1 else b"",
            content_type=IMAGE if images else "",
            accept="",
            custom_attributes=call.attributes,
            signature=request.signature,
            options=options,
            original_images=self.codecs.images.originals(lambda: images, context),
        )

    def for_handler(self, find: FindSignature, context: RequestContext) -> Sequence[Invocation] | None:
        """See Content.for_handler."""
        signature = find()
        images = encoded_images(self.inputs, signature)
        if not images or self.names_outputs_of(signature):
            return None
        self.codecs.images.check(images, context)  # all of them: the handler is asked for one at a time
        return [Invocation(self.codecs, image, IMAGE) for image in images]

    def joined(self, responses: Sequence[Response], find: FindSignature) -> TensorResponse:
        """See Content.joined: one tensor of byte strings."""
        return _selected(find(), {ANSWER: string_tensor([response.body for response in responses])}, self.outputs)


@dataclass(frozen=True)
class _TensorWriter:
    names: tuple[str, ...]

    def check(self, outputs: int) -> None:
        """See Writer.check."""

    def write(self, prediction: Prediction, signature: SignatureSpec) -> TensorResponse:
        """See Writer.write."""
        return _selected(signature, prediction.outputs, self.names)

    def finish(
        self, postprocess: Function, outputs: Mapping[str, Array], shown: Request, signature: SignatureSpec
    ) -> TensorResponse:
        """See Writer.finish."""
        finished = finish_tensors(postprocess, outputs, shown)
        tensors = {ANSWER: string_tensor([finished.body])} if isinstance(finished, HandlerResponse) else finished
        return _selected(signature, tensors, self.names)


def _selected(signature: SignatureSpec, outputs: Mapping[str, Array], names: tuple[str, ...]) -> TensorResponse:
    unknown = [name for name in names if name not in outputs]
    if unknown:
        raise BadRequest(
            f"outputs: the user's code returns {', '.join(outputs)}, the model {', '.join(signature.outputs)}; "
            f"got {', '.join(unknown)}"
        )
    return TensorResponse(signature, {name: outputs[name] for name in names or outputs})


Predict = Callable[[Call[Response]], Response]
"""The built-in handling."""


class AwsRequests:
    """Lets handlers of AWS's API answer; what a pair sends to the model passes the built-in handling's checks."""

    def __init__(self, servers: Sequence[ModelServerAddress], channels: Sequence[Any], timeout: int) -> None:
        """``channels`` are gRPC channels, one to each server; ``timeout`` is what handlers should give their calls."""
        self._servers = list(zip(servers, channels, strict=True))
        self._turn = itertools.count()
        self._timeout = timeout

    def answer(
        self,
        handlers: AwsHandlers,
        call: Call[Any],
        body: Invocation,
        model: PlannedModel,
        predict: Predict,
        request_context: RequestContext,
    ) -> Response:
        """Return the handler's answer to a body of a call; raises as AwsHandlers.invoke and ``predict`` do."""

        def predict_json(prepared: bytes, context: Context) -> requests.Response:
            # By its place: the field may be one that cannot be read.
            return rest_response(predict(call.carrying(body.as_json(prepared))).body, context[3])

        finished = handlers.invoke(body.body, self._context(call, body, model), predict_json, request_context)
        return Response(finished.body, finished.content_type)

    def _context(self, call: Call[Any], body: Invocation, model: PlannedModel) -> Context:
        server, channel = self._servers[next(self._turn) % len(self._servers)]
        version = "" if call.version is None else f"/versions/{call.version}"
        path = f"/v1/models/{model.name}{version}:{body.method.value}"
        # A model that was loaded later may have the first of AWS's handlers; its server keeps the ports that it has.
        kind = Context if server.rest_port and server.grpc_port else PortlessContext
        return kind(
            model_name=model.name,
            model_version=None if call.version is None else str(call.version),
            method=call.attributes.get("tfs-method") or None,
            rest_uri=f"http://localhost:{server.rest_port}{path}" if server.rest_port else "",
            grpc_port=str(server.grpc_port or ""),
            channel=channel,
            custom_attributes=call.custom_attributes,
            request_content_type=body.content_type or JSON,
            accept_header=body.accept or JSON,
            content_length=len(body.body),
            timeout=self._timeout,
        )
