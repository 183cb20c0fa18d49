"""The steps of a request: find the model, read the body, make the inputs, predict, write the response."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from lightbox.base.errors import (
    BadRequest,
    DeadlineExceeded,
    InputMismatch,
    ModelFailed,
    ModelNotFound,
)
from lightbox.base.request_context import MemoryBudget, RequestContext
from lightbox.base.settings_types import TransportName
from lightbox.codecs import Codecs
from lightbox.codecs.base import Response
from lightbox.codecs.codec_options import CodecOptions
from lightbox.codecs.top_k import in_pixels, map_rows, ranked_rows
from lightbox.core.attributes import CustomAttributes
from lightbox.core.request import Body, Call, TensorResponse
from lightbox.heads.maps import placed_maps
from lightbox.model.catalogue import Catalogue, PlannedModel
from lightbox.model.options import RANKING, ModelOptions
from lightbox.model.spec import Array, Layout, Mark, ModelCall, Prediction, SignatureSpec
from lightbox.model_files.layout import is_model_name
from lightbox.model_runtime.deadline import deadline
from lightbox.transports.base import Transport
from lightbox.transports.signature_cache import (
    IsLoading,
    RankGuard,
    Signatures,
    layout_by,
    probe,
    probe_version,
    traits_by,
)
from lightbox.user_code.api_detection import Function
from lightbox.user_code.aws import AwsHandlers, Context
from lightbox.user_code.aws_context import AwsContexts
from lightbox.user_code.described_outputs import DescribedOutputs, HandlerOutputs
from lightbox.user_code.handlers import RESPONSE_OUTPUT, LightboxHandlers, prepare
from lightbox.user_code.registry import NONE, Handlers, UserCode

R = TypeVar("R")
_MISSING = re.compile(r"Servable not found for request: (?:Latest|Specific)\(([^()\s,]+)(?:, ([0-9]+))?\)")
"""tensorflow_model_server's text, which names the version of a label too."""


@dataclass(frozen=True)
class Times:
    """Time limits of a request in seconds."""

    deadline: float = 30.0
    """With the built-in request handling."""
    handler: float = 60.0
    """With an ``inference.py``."""
    call: float = math.inf
    """For the model call between ``input_handler`` and ``output_handler``."""


@dataclass(frozen=True)
class PipelineOptions:
    """Options and time limits of requests. ``memory`` bounds the bytes of all requests together.

    ``shared_code_dirs`` may hold AWS handlers that answer for models that do not exist.
    """

    codecs: CodecOptions = field(default_factory=CodecOptions)
    times: Times = field(default_factory=Times)
    memory: int = 1 << 30
    shared_code_dirs: tuple[Path, ...] = ()


class Pipeline:
    """Answers calls. One instance per worker process, safe to use from several threads.

    The first of ``transports`` is the default. Without ``user_code`` no model has handlers; ``contexts`` makes the
    contexts of AWS handlers. ``alone`` returns whether this process works on a single request, ``is_loading``
    whether a model server still loads a version.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        transports: Mapping[str, Transport],
        user_code: UserCode | None = None,
        contexts: AwsContexts | None = None,
        options: PipelineOptions | None = None,
        alone: Callable[[], bool] = lambda: True,
        is_loading: IsLoading = lambda model, version, context: False,
    ) -> None:
        options = options or PipelineOptions()
        self.catalogue = catalogue
        self.catalogue.on_change(self.forget)
        self.memory = MemoryBudget(options.memory)
        self._transports = transports
        self._times = options.times
        self._user_code = user_code
        self._contexts = contexts or AwsContexts((), (), 0, lambda body, address: body)
        self._any_model = PlannedModel(
            name="", base_path=Path(), options=ModelOptions(), code_dirs=options.shared_code_dirs
        )
        traits = traits_by(self.catalogue)
        self._signatures = Signatures(self.catalogue.versions, traits, layout_by(self.catalogue), is_loading)
        self.rank_guard = RankGuard(self._signatures, next(iter(transports.values())), traits)
        self._handler_outputs = HandlerOutputs()
        self.codecs = Codecs(options.codecs, alone)
        """The codecs, with which protocols make the content of calls."""

    @property
    def allowed_seconds(self) -> float:
        """Time limit of a request in seconds: that of handlers, unless no model can have one."""
        return self._times.handler if self.may_have_handlers else self._times.deadline

    @property
    def may_have_handlers(self) -> bool:
        """Whether a model may have user code."""
        return not self.catalogue.is_fixed or self._user_code is not None

    def run(self, call: Call[R], context: RequestContext) -> R:
        """Return the response to a call, in the form of its content, or raise a LightboxError."""
        try:
            use = self.catalogue.using(call.model)
        except ModelNotFound as error:
            return self._respond_for_unknown(error, call, context)
        with use as model:
            handlers = self._begin(model, context)
            transport = self._transport(call.transport)
            if not isinstance(handlers, AwsHandlers):
                _check_names(call.attributes)
                return self._predict(handlers, call, model, transport, context)
            find = partial(self.describe, call.model, call.version, context, call.signature, transport)
            bodies = call.content.for_handler(find, context)
            if bodies is None:
                _check_names(call.attributes)
                return self._predict(NONE, call, model, transport, context)
            responses = [self._ask(handlers, call, body, model, transport, context) for body in bodies]
            return call.content.joined(responses, find)

    def _ask(
        self,
        handlers: AwsHandlers,
        call: Call[Any],
        body: Body,
        model: PlannedModel,
        transport: Transport,
        context: RequestContext,
    ) -> Response:
        """Have the AWS handlers answer a body. The pair's JSON goes through the built-in checks to the model.

        Raises DeadlineExceeded when the time limit has passed.
        """
        _check_time(context)
        handler_context = self._handler_context(model.name, call, body)
        if handlers.handler is not None:
            with context.users_code("handler", is_last=True):
                return handlers.answer(body.body, handler_context)
        with context.users_code("preprocess"):
            prepared = handlers.prepare(body.body, handler_context)
        with context.within(self._times.call):
            plain = call.carrying(body.as_json(prepared))
            response = self._predict(NONE, plain, _without_ranking(model), transport, context)
        with context.users_code("postprocess", is_last=True):
            return handlers.finish(self._contexts.response(response.body, handler_context), handler_context)

    def _respond_for_unknown(self, error: ModelNotFound, call: Call[R], context: RequestContext) -> R:
        """Have the handler for all models answer for a model that does not exist, as AWS's container does.

        Raises ``error`` if there is no such handler; a pair gets the error when it calls the model.
        """
        # AWS's container checks the model first in multi-model mode, and for a name that cannot be part of a URL.
        asked = self.catalogue.is_fixed and is_model_name(call.model or "")
        handlers = self._handlers(self._any_model) if asked else NONE
        if not isinstance(handlers, AwsHandlers):
            raise error

        def find() -> SignatureSpec:
            raise error

        responses = []
        for body in call.content.for_handler(find, context) or ():
            _check_time(context)
            handler_context = self._handler_context(call.model or "", call, body)
            if handlers.handler is None:
                with context.users_code("preprocess", is_last=True):
                    handlers.prepare(body.body, handler_context)
                raise error
            with context.users_code("handler", is_last=True):
                responses.append(handlers.answer(body.body, handler_context))
        return call.content.joined(responses, find)

    def _handler_context(self, model: str, call: Call[Any], body: Body) -> Context:
        """Return the context that AWS's container gives a handler with a body."""
        return self._contexts.of(
            model, call.version, body.method, call.attributes, body.content_type, body.accept, len(body.body)
        )

    def _handlers(self, model: PlannedModel) -> Handlers:
        return NONE if self._user_code is None else self._user_code.of(model)

    def _begin(self, model: PlannedModel, context: RequestContext) -> Handlers:
        """Return the model's handlers and set their context; raise DeadlineExceeded when the time limit has passed."""
        handlers = self._handlers(model)
        if handlers is NONE:
            context.limit(self._times.deadline)
        _check_time(context)
        context.model = model.name
        return handlers

    def _predict(
        self,
        handlers: LightboxHandlers,
        call: Call[R],
        model: PlannedModel,
        transport: Transport,
        context: RequestContext,
    ) -> R:
        attempt = partial(self._attempt, handlers, call, model, transport, context)
        return self._signatures.on_newest(model.name, call.version, attempt, context)

    def _attempt(
        self,
        handlers: LightboxHandlers,
        call: Call[R],
        model: PlannedModel,
        transport: Transport,
        context: RequestContext,
    ) -> R:
        content = call.content
        names = handlers.preprocess is None and not call.outputs
        writer = content.writer(handlers.postprocess is not None, names and _asks_for_names(model.options))
        context.keeps_picture = writer.draws
        parsed = content.parse(context) if handlers.preprocess is None else None
        name = call.signature or (parsed.signature if parsed else None)
        signature = self._signatures.get(transport, model.name, call.version, name, context)
        context.version = signature.version
        if handlers.preprocess is not None and content.has_images(signature):
            request = self._preprocessed(handlers.preprocess, call, signature, model, context)
        else:
            request = (parsed or content.parse(context)).decode(signature, model.options)
            signature = request.signature
        postprocess = None if content.names_outputs_of(signature) else handlers.postprocess
        by_name = content.outputs == (RESPONSE_OUTPUT,) and RESPONSE_OUTPUT not in signature.outputs
        by_name = by_name and handlers is NONE and _asks_for_names(model.options)
        asked = request.outputs or (() if postprocess or by_name else content.outputs) or call.outputs
        outputs = asked or model.options.outputs or ()
        signature.check_outputs(outputs)
        is_placed = names and postprocess is None and (writer.places_maps or by_name)
        is_placed = is_placed and model.options.map is not None and bool(request.placed)
        writer.check(1 if is_placed else len(outputs or signature.outputs))
        self.rank_guard.check(signature, request.inputs)
        context.memory.hold_tensors(content.size(context), request.inputs.values())
        found = self._found(transport, ModelCall(signature, request.inputs, outputs), request, model.options, context)
        with context.stage("postprocess"):
            # In the signature's order: gRPC's map has no order, and both transports return the same response.
            ordered = {name: found[name] for name in signature.outputs if name in found}
            maps = None
            if is_placed:
                with deadline(partial(context.check, "the model's answer")):
                    maps = placed_maps(ordered, model.options, request)
            given, ordered, is_map = ordered, maps or ordered, maps is not None
            if postprocess is None:
                prediction = request.predicted(ordered)
                as_document = model.options.jsonlines == "document"
                if is_map or as_document:
                    prediction = replace(prediction, lines_as_document=as_document, is_map=is_map)
                is_asked = request.images or request.placed or by_name or not model.names_images_only
                if names and is_asked and is_map == (model.options.map is not None):
                    options = in_pixels(model.options, ordered) if writer.needs_names else model.options
                    prediction = _named(prediction, given, request, options, context)
                if not writer.draws:
                    return writer.write(prediction, signature)
                with deadline(partial(context.check, "the model's answer")):
                    return writer.write(prediction, signature)
            shown = content.shown(call, request, model.options, context)
            context.turn.leave()
            response = writer.finish(postprocess, ordered, shown, signature)
        if isinstance(response, TensorResponse) and not content.outputs:
            self._handler_outputs.note(model.name, response.outputs)
        return response

    def _found(
        self, transport: Transport, call: ModelCall, request: ModelCall, options: ModelOptions, context: RequestContext
    ) -> Mapping[str, Array]:
        """Return the model's outputs for the inputs of ``request``."""
        try:
            return self._called(transport, call, len(request.images), context)
        except (ModelFailed, BadRequest) as error:
            image = call.signature.image
            is_open = image is not None and not (image.height and image.width)
            if request.placed and is_open and not options.image_size:
                hint = "if the model takes images of one size only, set the option image_size"
                error.args = (f"{error.message}; {hint}",)
            raise

    def _called(
        self, transport: Transport, call: ModelCall, count: int, context: RequestContext
    ) -> Mapping[str, Array]:
        """Return the model's outputs for ``count`` images, or for other inputs.

        A model of a fixed number of images at a time gets several calls, the last one with copies of an image.
        """
        signature, size = call.signature, call.signature.fixed_rows
        if not count or size in (None, 0, count) or not _has_batch(call):
            return self.rank_guard.predict(transport, call, context)
        assert size is not None
        rows = {(signature.outputs[name].shape or (None,))[0] for name in call.outputs or signature.outputs}
        if not signature.gives_rows(call.outputs or signature.outputs) or rows - {None, size}:
            gives = ", ".join(map(str, signature.outputs.values()))
            takes = "one image" if size == 1 else f"{size} images"
            raise InputMismatch(f"expected {takes} in a request: the model gives {gives}; got {count}")
        import numpy as np

        found = []
        for at in range(0, count, size):
            context.check(f"image {at + 1} of {count}")
            taken = np.minimum(np.arange(at, at + size), count - 1)
            inputs = {name: array[taken] for name, array in call.inputs.items()}
            found.append(self.rank_guard.predict(transport, replace(call, inputs=inputs), context))
        return {name: np.concatenate([outputs[name] for outputs in found])[:count] for name in found[0]}

    def _preprocessed(
        self,
        preprocess: Function,
        call: Call[Any],
        signature: SignatureSpec,
        model: PlannedModel,
        context: RequestContext,
    ) -> ModelCall:
        """Return the inputs that the user's preprocess makes of the content."""
        shown = call.content.shown(call, ModelCall(signature, {}), model.options, context)
        with context.users_code("preprocess"):
            return ModelCall(signature, prepare(preprocess, shown))

    def probe(self, context: RequestContext) -> None:
        """Predict once with the default model; raise LightboxError if it does not answer."""
        probe(self.catalogue.find(None).name, self._transport(), self._signatures, context)

    def probe_version(self, model: str, version: int, context: RequestContext) -> None:
        """Predict once with a version; raise LightboxError unless it can replace the version that answers now."""
        size = self.catalogue.find(model).options.image_size
        probe_version(model, version, self._transport(), self._signatures, context, size)

    def describe(
        self,
        model: str | None,
        version: int | None,
        context: RequestContext,
        signature: str | None = None,
        transport: Transport | None = None,
    ) -> SignatureSpec:
        """Return a signature; the default one without a name. Raises as ``run`` does."""
        name, transport = self.catalogue.find(model).name, transport or self._transport()
        get = partial(self._signatures.get, transport, name, version, signature, context)
        return self._signatures.on_newest(name, version, get, context)

    @contextmanager
    def holding(self, model: str, context: RequestContext) -> Iterator[None]:
        """Hold a model during a request that is forwarded; the model server answers for one that it does not know.

        Raises as the catalogue's ``using``, but for a model that a fixed catalogue does not have.
        """
        with ExitStack() as held:
            if model:
                try:
                    context.model = held.enter_context(self.catalogue.using(model)).name
                except ModelNotFound:
                    if not self.catalogue.is_fixed:
                        raise
            yield

    def check_loading(self, text: str, context: RequestContext) -> None:
        """Raise Unavailable for a model server's text about a version that it does not find, while it loads it."""
        if missing := _MISSING.search(text):
            self._signatures.check_loading(missing[1], int(missing[2]) if missing[2] else None, context)

    def outputs(self, signature: SignatureSpec) -> DescribedOutputs:
        """Return the outputs of a request of tensors that names none. Raises as ``run`` does."""
        return self._handler_outputs.describe(signature, self._handlers(self.catalogue.find(signature.model)))

    def models(self) -> list[str]:
        """Return the names of the models that answer requests."""
        return self.catalogue.names()

    def versions(self, model: str) -> Sequence[int]:
        """Return the versions of a model that answer, the newest first; empty if unknown."""
        return self.catalogue.versions(model)

    def served(self, model: str | None = None) -> tuple[PlannedModel, Handlers]:
        """Return a model, the default one for None, and its user code. Raises as ``run`` does."""
        found = self.catalogue.find(model)
        return found, self._handlers(found)

    def forget(self, model: str) -> None:
        """Drop the cached facts of a model: another one may get its name."""
        self._signatures.forget(model)
        if self._user_code is not None:
            self._user_code.forget(model)
        self._handler_outputs.forget(model)

    def _transport(self, name: str | None = None) -> Transport:
        name = name or next(iter(self._transports))
        if name not in self._transports:
            raise _no_transport(name, list(self._transports))
        return self._transports[name]


def _has_batch(call: ModelCall) -> bool:
    image = call.signature.image
    return image is not None and image.batched


def _no_transport(name: str, there: list[str]) -> BadRequest:
    turned_on = f"; LIGHTBOX_TRANSPORT={','.join([*there, name])} turns it on" if name in set(TransportName) else ""
    if name in (TransportName.INSIDE, TransportName.LOCAL):
        turned_on += " with the embedded model server"
    return BadRequest(f"tfs-transport: expected {' or '.join(sorted(there))}, got {name!r}{turned_on}")


def _check_names(attributes: CustomAttributes) -> None:
    if attributes.pairs:
        attributes.check_names()


def _named(
    prediction: Prediction,
    outputs: Mapping[str, Array],
    request: ModelCall,
    options: ModelOptions,
    context: RequestContext,
) -> Prediction:
    """Replace raw outputs by classes or objects by name, if the model's options say so; for the JSON codecs."""
    if not _asks_for_names(options) or prediction.layout is Layout.RESULTS:
        return prediction

    def ranked(mark: Mark | None = None) -> list[bytes] | None:
        with deadline(partial(context.check, "the model's answer")):
            if options.map is not None:
                return map_rows(prediction.outputs, outputs, options, request)
            return ranked_rows(prediction.outputs, options, request, mark)

    return replace(prediction, ranked=ranked, picture=request.picture, file_names=context.file_names)


def _asks_for_names(options: ModelOptions) -> bool:
    return _ranking(options) != _NO_RANKING


_ranking, _NO_RANKING = attrgetter(*RANKING), (None,) * len(RANKING)


def _without_ranking(model: PlannedModel) -> PlannedModel:
    """Return the model with raw outputs, as handlers get them."""
    options = model.options.model_copy(update=dict.fromkeys(RANKING))
    return model.model_copy(update={"options": options})


def _check_time(context: RequestContext) -> None:
    if context.remaining() <= 0:
        raise DeadlineExceeded(
            f"the {context.allowed_seconds:g} s that the request is allowed passed before the model was called: "
            f"the request waited {context.waited:.1f} s for a free thread"
        )
