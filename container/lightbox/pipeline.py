"""The story of one request: what came in, which model, its inputs, predict, the answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lightbox.call import KNOWN_PAIRS, Call, meant
from lightbox.codecs import Codecs
from lightbox.codecs.base import DecodedRequest, Layout, Prediction, Response
from lightbox.codecs.ranked import ranked_rows
from lightbox.concurrency import InProgress
from lightbox.contents import AwsRequests, Invocation, Predict, TensorResponse
from lightbox.errors import BadRequest, DeadlineExceeded, ModelNotFound
from lightbox.handler_outputs import DescribedOutputs, HandlerOutputs
from lightbox.memory_budget import MemoryBudget
from lightbox.model.layout import is_model_name
from lightbox.model.options import ModelOptions
from lightbox.model.signatures import RankGuard, Signatures, probe, probe_version, traits_by
from lightbox.model.spec import SignatureSpec
from lightbox.plan import Catalogue, PlannedModel, PlannedModels, ServingPlan
from lightbox.request_context import RequestContext
from lightbox.sessions import SessionStore
from lightbox.settings import Settings
from lightbox.settings_base import TransportName
from lightbox.transports.base import PredictCall, Transport
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.handlers import LightboxHandlers, prepare
from lightbox.user_code.loader import Function
from lightbox.user_code.registry import NONE, Handlers, UserCode

R = TypeVar("R")


class Pipeline:
    """Answers calls; one for each worker process, safe to use from several threads.

    The first of ``transports`` carries requests that choose none. ``channels`` are what handlers of AWS's API get: a
    gRPC channel to each model server.
    """

    def __init__(
        self,
        settings: Settings,
        plan: ServingPlan,
        transports: Mapping[str, Transport],
        user_code: UserCode | None = None,
        channels: Sequence[Any] = (),
        catalogue: Catalogue | None = None,
    ) -> None:
        self._settings = settings
        self.catalogue = catalogue or PlannedModels(plan)
        self.catalogue.on_change(self.forget)
        self._transports = transports
        self._deadline_seconds = settings.deadline_seconds
        self._user_code = user_code or UserCode()
        self._any_model = PlannedModel(
            name="", base_path=settings.model_dir, options=ModelOptions(), code_dirs=plan.shared_code_dirs
        )
        self._signatures = Signatures(self.catalogue.versions, traits := traits_by(self.catalogue))
        self.rank_guard = RankGuard(self._signatures, next(iter(transports.values())), traits)
        self._handler_outputs = HandlerOutputs()
        self._in_progress = InProgress()
        self.codecs = Codecs(settings, self._in_progress)
        """With them protocols make the content of calls."""
        self.sessions: SessionStore | None = None
        self.max_text_mb = settings.max_text_mb
        self.memory = MemoryBudget(settings.worker_memory)
        self._aws = AwsRequests(
            plan.model_servers, channels or [None for _ in plan.model_servers], settings.call_seconds
        )

    @property
    def allowed_seconds(self) -> float:
        """Seconds that requests may take here: as many as handlers may, unless there can be none."""
        may_have_handlers = self._settings.multi_model or not self._user_code.is_empty()
        return self._settings.handler_seconds if may_have_handlers else self._settings.deadline_seconds

    def run(self, call: Call[R], context: RequestContext) -> R:
        """Return the response to a call, in the form of its content, or raise a LightboxError."""
        with self._in_progress:
            try:
                use = self.catalogue.using(call.model)
            except ModelNotFound as error:
                return self._respond_for_unknown(error, call, context)
            with use as model:
                handlers = self._begin(model, context)
                transport = self._transport(call.transport)
                if isinstance(handlers, AwsHandlers):
                    return self._ask_handler(handlers, call, model, transport, context)
                _check_attributes(call.attributes)
                return self._predict(handlers, call, model, transport, context)

    def _ask_handler(
        self, handlers: AwsHandlers, call: Call[R], model: PlannedModel, transport: Transport, context: RequestContext
    ) -> R:
        """Have a handler of AWS's API answer, or the model where the handler is not asked about such content."""

        def predict(sent: Call[Response]) -> Response:
            allowed = self._settings.call_seconds if self._settings.wait_seconds else math.inf
            with context.within(allowed):
                return self._predict(NONE, sent, _without_ranking(model), transport, context)

        def find() -> SignatureSpec:
            return self.describe(call.model, call.version, context, call.signature, transport)

        bodies = call.content.for_handler(find, context)
        if bodies is None:
            _check_attributes(call.attributes)
            return self._predict(NONE, call, model, transport, context)
        return call.content.joined(self._responses(handlers, call, bodies, model, predict, context), find)

    def _responses(
        self,
        handlers: AwsHandlers,
        call: Call[Any],
        bodies: Iterable[Invocation],
        model: PlannedModel,
        predict: Predict,
        context: RequestContext,
    ) -> list[Response]:
        """Return the handler's answer to each body; raise DeadlineExceeded when time is up between two of them."""
        responses = []
        for body in bodies:
            _check_time(context)
            responses.append(self._aws.answer(handlers, call, body, model, predict, context))
        return responses

    def _respond_for_unknown(self, error: ModelNotFound, call: Call[R], context: RequestContext) -> R:
        """Let a handler for all models answer, which AWS's container asks for models that do not exist, too.

        Raises ``error`` where there is none; it is also what a pair is told of the model.
        """
        # In multi-model mode AWS's container looks first; and a name that no model can have is no part of an address.
        asked = not self._settings.multi_model and is_model_name(call.model or "")
        handlers = self._user_code.of(self._any_model) if asked else NONE
        if not isinstance(handlers, AwsHandlers):
            raise error

        def find() -> SignatureSpec:
            raise error

        def predict(_: Call[Response]) -> Response:
            raise error

        model = self._any_model.model_copy(update={"name": call.model})
        bodies = call.content.for_handler(find, context) or ()
        return call.content.joined(self._responses(handlers, call, bodies, model, predict, context), find)

    def _begin(self, model: PlannedModel, context: RequestContext) -> Handlers:
        """Return the model's handlers, with the context set for them; raise DeadlineExceeded when time is up."""
        handlers = self._user_code.of(model)
        if handlers is NONE:
            context.limit(self._deadline_seconds)
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
        return self._signatures.on_newest(model.name, call.version, attempt)

    def _attempt(
        self,
        handlers: LightboxHandlers,
        call: Call[R],
        model: PlannedModel,
        transport: Transport,
        context: RequestContext,
    ) -> R:
        content = call.content
        writer = content.writer(handlers.postprocess is not None)
        parsed = content.parse(context) if handlers.preprocess is None else None
        name = call.signature or (parsed.signature if parsed else None)
        signature = self._signatures.get(transport, model.name, call.version, name, context)
        if handlers.preprocess is not None and content.has_images(signature):
            request = self._preprocessed(handlers.preprocess, call, signature, model, context)
        else:
            request = (parsed or content.parse(context)).decode(signature, model.options)
            signature = request.signature
        postprocess = None if content.names_outputs_of(signature) else handlers.postprocess
        asked = request.outputs or (() if postprocess else content.outputs) or call.outputs
        outputs = asked or model.options.outputs or ()
        signature.check_outputs(outputs)
        writer.check(len(outputs or signature.outputs))
        self.rank_guard.check(signature, request.inputs)
        context.memory.hold_tensors(content.size(context), request.inputs.values())
        found = self.rank_guard.predict(transport, PredictCall(signature, request.inputs, outputs), context)
        context.version = signature.version
        with context.stage("postprocess"):
            # In the signature's order: gRPC's map has none, and answers over both wires are to be the same.
            ordered = {name: found[name] for name in signature.outputs if name in found}
            if postprocess is None:
                prediction = request.predicted(ordered)
                is_ranked = handlers.preprocess is None and not call.outputs
                return writer.write(_ranked(prediction, model.options) if is_ranked else prediction, signature)
            shown = content.shown(call, request, model.options, context)
            response = writer.finish(postprocess, ordered, shown, signature)
        if isinstance(response, TensorResponse) and not content.outputs:
            self._handler_outputs.note(model.name, response)
        return response

    def _preprocessed(
        self,
        preprocess: Function,
        call: Call[Any],
        signature: SignatureSpec,
        model: PlannedModel,
        context: RequestContext,
    ) -> DecodedRequest:
        """Return the inputs that the user's code makes of the content."""
        request = DecodedRequest(signature, {})
        with context.stage("preprocess"):
            request.inputs.update(prepare(preprocess, call.content.shown(call, request, model.options, context)))
        return request

    def probe(self, context: RequestContext) -> None:
        """Have the default model predict once; raise LightboxError when nobody answers for it."""
        probe(self.catalogue.find(None).name, self._transport(), self._signatures, context)

    def probe_version(self, model: str, version: int, context: RequestContext) -> None:
        """Have a version predict once; raise LightboxError unless it can answer as the one that answers now does."""
        probe_version(model, version, self._transport(), self._signatures, context)

    def describe(
        self,
        model: str | None,
        version: int | None,
        context: RequestContext,
        signature: str | None = None,
        transport: Transport | None = None,
    ) -> SignatureSpec:
        """Return a signature, by default the one that answers when a request names none. Raises as ``run`` does."""
        name, transport = self.catalogue.find(model).name, transport or self._transport()
        get = partial(self._signatures.get, transport, name, version, signature, context)
        return self._signatures.on_newest(name, version, get)

    def outputs(self, signature: SignatureSpec) -> DescribedOutputs:
        """Return what a request of tensors gets that names no outputs. Raises as ``run`` does."""
        return self._handler_outputs.describe(signature, self._user_code.of(self.catalogue.find(signature.model)))

    def models(self) -> list[str]:
        """Return the names of the models that can be asked for."""
        return self.catalogue.names()

    def versions(self, model: str) -> Sequence[int]:
        """Return the versions of a model that answer, the newest first; empty where nothing is known of them."""
        return self.catalogue.versions(model)

    def served(self, model: str | None = None) -> tuple[PlannedModel, Handlers]:
        """Return a model, the default one for None, and its user code. Raises as ``run`` does."""
        found = self.catalogue.find(model)
        return found, self._user_code.of(found)

    def forget(self, model: str) -> None:
        """Drop what is remembered of a model: another one may come under its name."""
        self._signatures.forget(model)
        self._user_code.forget(model)
        self._handler_outputs.forget(model)

    def _transport(self, name: str | None = None) -> Transport:
        name = name or next(iter(self._transports))
        if name not in self._transports:
            raise _no_transport(name, list(self._transports))
        return self._transports[name]


def _no_transport(name: str, there: list[str]) -> BadRequest:
    turned_on = f"; LIGHTBOX_TRANSPORT={','.join([*there, name])} turns it on" if name in set(TransportName) else ""
    if name == TransportName.LOCAL:
        turned_on += " with the embedded model server"
    return BadRequest(f"tfs-transport: expected {' or '.join(sorted(there))}, got {name!r}{turned_on}")


def _check_attributes(names: Iterable[str]) -> None:
    """Raise BadRequest for a custom attribute that begins with ``tfs-`` and that Lightbox does not read."""
    for name in names:
        if name.lower().startswith("tfs-") and name not in KNOWN_PAIRS:
            told = f"did you mean {close}?" if (close := meant(name)) else f"expected one of {', '.join(KNOWN_PAIRS)}"
            raise BadRequest(f"custom attribute {name[:100]}: there is no such attribute; {told}")


def _ranked(prediction: Prediction, options: ModelOptions) -> Prediction:
    """Have the codecs of JSON answer with classes by name, where the model's options ask for them."""
    if (options.labels is None and options.top_k is None) or prediction.layout is Layout.RESULTS:
        return prediction
    return replace(prediction, ranked=partial(ranked_rows, prediction.outputs, options))


def _without_ranking(model: PlannedModel) -> PlannedModel:
    """Return a model whose outputs come as they are: what a handler asks for."""
    if model.options.labels is None and model.options.top_k is None:
        return model
    return model.model_copy(update={"options": model.options.model_copy(update={"labels": None, "top_k": None})})


def _check_time(context: RequestContext) -> None:
    if context.remaining() <= 0:
        raise DeadlineExceeded(
            f"the {context.allowed_seconds:g} s that the request is allowed passed before the model was asked: "
            f"it waited {context.waited:.1f} s for a free thread"
        )
