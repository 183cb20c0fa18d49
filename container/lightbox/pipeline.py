"""The story of one request: what came in, which model, its inputs, predict, the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lightbox.aws_requests import AwsRequests
from lightbox.codecs.base import Answer, DecodedRequest, Target
from lightbox.codecs.registry import RequestCodecs, check_single, codecs, negotiate
from lightbox.errors import BadRequest, DeadlineExceeded, ModelNotFound
from lightbox.invocation import Invocation
from lightbox.memory_budget import MemoryBudget
from lightbox.model.layout import is_model_name
from lightbox.model.options import ModelOptions
from lightbox.model.signatures import Signatures, probe
from lightbox.model.spec import Array, SignatureSpec
from lightbox.plan import Catalogue, PlannedModel, PlannedModels, ServingPlan
from lightbox.request_context import RequestClock
from lightbox.settings import Settings
from lightbox.settings_values import TransportName
from lightbox.tensor_pipeline import TensorPipeline
from lightbox.tensor_request import TensorAnswer, TensorRequest
from lightbox.transports.base import PredictCall, Transport
from lightbox.user_code.aws import AwsHandlers
from lightbox.user_code.handlers import LightboxHandlers, finish, prepare
from lightbox.user_code.registry import NONE, Handlers, UserCode
from lightbox.user_code.request import Request


class Pipeline:
    """Answers invocations; one for each worker process, safe to use from several threads.

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
        self._catalogue = catalogue or PlannedModels(plan)
        self._transports = transports
        self._default_transport = next(iter(transports))
        self._user_code = user_code or UserCode()
        self._any_model = PlannedModel(
            name="", base_path=settings.model_dir, options=ModelOptions(), code_dirs=plan.shared_code_dirs
        )
        self._signatures = Signatures()
        self._requests = RequestCodecs(settings)
        self._answer_codecs = codecs(settings.jsonlines)
        self.max_text_mb = settings.max_text_mb
        self.memory = MemoryBudget(settings.worker_memory)
        self._in_progress = self._requests.images.in_progress
        self._tensors = TensorPipeline(self._requests.images, self._signatures, self._invoke)
        self._aws = AwsRequests(
            plan.model_servers, channels or [None for _ in plan.model_servers], settings.call_seconds
        )

    def invoke(self, invocation: Invocation, clock: RequestClock) -> Answer:
        """Return the model's answer, or raise a LightboxError."""
        with self._in_progress:
            return self._invoke(invocation, clock)

    @property
    def allowed_seconds(self) -> float:
        """Seconds that requests may take here: as many as handlers may, unless there can be none."""
        may_have_handlers = self._settings.multi_model or not self._user_code.is_empty()
        return self._settings.handler_seconds if may_have_handlers else self._settings.deadline_seconds

    def _invoke(self, invocation: Invocation, clock: RequestClock) -> Answer:
        try:
            use = self._catalogue.using(invocation.model)
        except ModelNotFound as error:
            return self._answer_for_unknown(error, invocation, clock)
        with use as model:
            handlers = self._begin(model, clock)
            transport = self._transport(invocation.transport, clock)
            if isinstance(handlers, AwsHandlers):

                def predict(sent: Invocation) -> Answer:
                    return self._answer(NONE, model, transport, self._clock_of_call(clock), sent)

                return self._aws.answer(handlers, invocation, model, predict, clock)
            return self._answer(handlers, model, transport, clock, invocation)

    def _answer_for_unknown(self, error: ModelNotFound, invocation: Invocation, clock: RequestClock) -> Answer:
        """Let a handler for all models answer, which AWS's container asks for models that do not exist, too.

        Raises ``error`` where there is none; it is also what a pair is told of the model.
        """
        # In multi-model mode AWS's container looks first; and a name that no model can have is no part of an address.
        asked = not self._settings.multi_model and is_model_name(invocation.model or "")
        handlers = self._user_code.of(self._any_model) if asked else NONE
        if not isinstance(handlers, AwsHandlers):
            raise error
        _check_time(clock)

        def predict(_: Invocation) -> Answer:
            raise error

        model = self._any_model.model_copy(update={"name": invocation.model})
        return self._aws.answer(handlers, invocation, model, predict, clock)

    def _begin(self, model: PlannedModel, clock: RequestClock) -> Handlers:
        """Return the model's handlers, with the clock set for them; raise DeadlineExceeded when time is up."""
        handlers = self._user_code.of(model)
        if handlers is NONE:
            clock.limit(self._settings.deadline_seconds)
        _check_time(clock)
        clock.model = model.name
        return handlers

    def _clock_of_call(self, clock: RequestClock) -> RequestClock:
        """Return the clock of what a pair of handlers asks the model."""
        return clock.within(self._settings.call_seconds) if self._settings.wait_seconds else clock

    def _answer(
        self,
        handlers: LightboxHandlers,
        model: PlannedModel,
        transport: Transport,
        clock: RequestClock,
        invocation: Invocation,
    ) -> Answer:
        attempt = partial(self._predict, handlers, model, transport, clock, invocation)
        return self._signatures.on_newest(model.name, invocation.version, attempt)

    def _predict(
        self,
        handlers: LightboxHandlers,
        model: PlannedModel,
        transport: Transport,
        clock: RequestClock,
        invocation: Invocation,
    ) -> Answer:
        def find_signature(name: str | None) -> SignatureSpec:
            return self._signatures.get(transport, model.name, invocation.version, invocation.signature or name, clock)

        answers = negotiate(invocation.accept, self._answer_codecs) if handlers.postprocess is None else None
        target = Target(find_signature, model.options, clock, invocation.method)
        request = self._inputs(handlers, invocation, target)
        signature, outputs = request.signature, request.outputs or model.options.outputs or ()
        signature.check_outputs(outputs)
        if answers is not None:
            check_single(answers, len(outputs or signature.outputs))
        signature.check_inputs(request.inputs)
        clock.memory.hold_tensors(len(invocation.body), request.inputs.values())
        found = transport.predict(PredictCall(signature, request.inputs, outputs), clock)
        with clock.stage("postprocess"):
            # In the signature's order: gRPC's map has none, and answers over both wires are to be the same.
            predicted = {name: found[name] for name in signature.outputs if name in found}
            if answers is not None:
                return answers.encode(request.predicted(predicted))
            return self._finish(handlers, predicted, self._shown(invocation, target, request))

    def _inputs(self, handlers: LightboxHandlers, invocation: Invocation, target: Target) -> DecodedRequest:
        if handlers.preprocess is None:
            return self._requests.decode(invocation.body, invocation.content_type, target)
        request = DecodedRequest(target.find_signature(None), {})
        with target.clock.stage("preprocess"):
            request.inputs.update(prepare(handlers.preprocess, self._shown(invocation, target, request)))
        return request

    def _finish(self, handlers: LightboxHandlers, outputs: Mapping[str, Array], request: Request) -> Answer:
        assert handlers.postprocess is not None
        finished = finish(handlers.postprocess, outputs, request)
        return Answer(finished.body, finished.content_type)

    def _shown(self, invocation: Invocation, target: Target, request: DecodedRequest) -> Request:
        """Return what Lightbox's handler API shows of a request."""
        return Request(
            body=invocation.body,
            content_type=invocation.content_type,
            accept=invocation.accept,
            custom_attributes=invocation.attributes,
            signature=request.signature,
            options=target.options,
            original_images=self._requests.originals(
                invocation.body, invocation.content_type, target.clock, request.images
            ),
        )

    def probe(self, clock: RequestClock) -> None:
        """Have the default model predict once; raise LightboxError when nobody answers for it."""
        probe(self._catalogue.find(None).name, self._transport(None, clock), self._signatures, clock)

    def infer(self, request: TensorRequest, clock: RequestClock) -> TensorAnswer:
        """Return the model's outputs for tensors that are decoded already, or raise a LightboxError."""
        with self._catalogue.using(request.model) as model:
            handlers = self._begin(model, clock)
            transport = self._transport(request.transport, clock)
            attempt = partial(self._tensors.infer, handlers, model, transport, clock, request)
            with self._in_progress:
                return self._signatures.on_newest(model.name, request.version, attempt)

    def describe(
        self, model: str | None, version: int | None, clock: RequestClock, signature: str | None = None
    ) -> SignatureSpec:
        """Return a signature, by default the one that answers when a request names none. Raises as ``infer`` does."""
        name, transport = self._catalogue.find(model).name, self._transport(None, clock)
        get = partial(self._signatures.get, transport, name, version, signature, clock)
        return self._signatures.on_newest(name, version, get)

    def models(self) -> list[str]:
        """Return the names of the models that can be asked for."""
        return self._catalogue.names()

    def forget(self, model: str) -> None:
        """Drop what is remembered of a model: another one may come under its name."""
        self._signatures.forget(model)
        self._user_code.forget(model)

    def _transport(self, name: str | None, clock: RequestClock) -> Transport:
        name = name or self._default_transport
        if name not in self._transports:
            raise _no_transport(name, list(self._transports))
        clock.transport = name
        return self._transports[name]


def _no_transport(name: str, there: list[str]) -> BadRequest:
    turned_on = f"; LIGHTBOX_TRANSPORT={','.join([*there, name])} turns it on" if name in set(TransportName) else ""
    return BadRequest(f"tfs-transport: expected {' or '.join(sorted(there))}, got {name!r}{turned_on}")


def _check_time(clock: RequestClock) -> None:
    if clock.remaining() <= 0:
        raise DeadlineExceeded(
            f"the {clock.allowed_seconds:g} s that the request is allowed passed before the model was asked: "
            f"it waited {clock.waited:.1f} s for a free thread"
        )
