"""The story of one request: what came in, which model, its inputs, predict, the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightbox.codecs.answers import check_single, negotiate
from lightbox.codecs.base import Answer, Method, Target
from lightbox.codecs.requests import RequestCodecs
from lightbox.errors import BadRequest, ModelNotFound
from lightbox.model_spec import SignatureSpec
from lightbox.plan import PlannedModel, ServingPlan
from lightbox.settings import Settings
from lightbox.signatures import Signatures
from lightbox.telemetry.clock import RequestClock
from lightbox.transports.base import DEFAULT_SIGNATURE, PredictCall, Transport


@dataclass(frozen=True)
class Invocation:
    """One request, whatever the protocol it came by. Fields left None take the configured default.

    ``content_type`` and ``accept`` are the raw headers, "" where there was none.
    """

    body: bytes
    content_type: str = ""
    accept: str = ""
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    method: Method = Method.PREDICT
    transport: str | None = None


class Pipeline:
    """Answers invocations; one for each worker process, safe to use from several threads."""

    def __init__(self, settings: Settings, plan: ServingPlan, transports: Mapping[str, Transport]) -> None:
        self._settings = settings
        self._plan = plan
        self._transports = transports
        self._signatures = Signatures()
        self._requests = RequestCodecs(settings)

    def invoke(self, invocation: Invocation, clock: RequestClock) -> Answer:
        """Return the model's answer, or raise a LightboxError."""
        model = self._model(invocation.model)
        transport = self._transport(invocation.transport)
        try:
            return self._predict(invocation, model, transport, clock)
        except ModelNotFound:
            # The newest version that we knew may just have been replaced: look once more, unless one was named.
            if invocation.version is not None:
                raise
            self._signatures.forget(model.name)
            return self._predict(invocation, model, transport, clock)

    def _predict(
        self, invocation: Invocation, model: PlannedModel, transport: Transport, clock: RequestClock
    ) -> Answer:
        def find_signature(name: str | None) -> SignatureSpec:
            wanted = invocation.signature or name or DEFAULT_SIGNATURE
            return self._signatures.get(transport, model.name, invocation.version, wanted, clock)

        answers = negotiate(invocation.accept)
        target = Target(find_signature, model.options, clock, invocation.method)
        request = self._requests.decode(invocation.body, invocation.content_type, target)
        signature, outputs = request.signature, request.outputs or model.options.outputs or ()
        signature.check_outputs(outputs)
        check_single(answers, len(outputs or signature.outputs))
        signature.check_inputs(request.inputs)
        found = transport.predict(PredictCall(signature, request.inputs, outputs), clock)
        with clock.stage("postprocess"):
            # In the signature's order: gRPC's map has none, and answers over both wires are to be the same.
            predicted = {name: found[name] for name in signature.outputs if name in found}
            return answers.encode(request.predicted(predicted))

    def _model(self, name: str | None) -> PlannedModel:
        name = name or self._plan.default_model
        if name not in self._plan.models:
            known = ", ".join(sorted(self._plan.models))
            raise ModelNotFound(f"there is no model named {name!r}; this endpoint serves {known}")
        return self._plan.models[name]

    def _transport(self, name: str | None) -> Transport:
        name = name or self._settings.transport.value
        if name not in self._transports:
            raise BadRequest(f"tfs-transport: expected {' or '.join(sorted(self._transports))}, got {name!r}")
        return self._transports[name]
