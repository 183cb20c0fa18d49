"""The story of one request: what came in, which model, its inputs, predict, the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightbox.codecs.image import ImageCodec
from lightbox.codecs.json_answer import write_predictions
from lightbox.errors import BadRequest, ModelNotFound, UnsupportedMediaType
from lightbox.images.decode import is_image
from lightbox.model_spec import Array, SignatureSpec
from lightbox.plan import PlannedModel, ServingPlan
from lightbox.settings import Settings
from lightbox.signatures import Signatures
from lightbox.telemetry.clock import RequestClock
from lightbox.transports.base import DEFAULT_SIGNATURE, PredictCall, Transport

IMAGE_TYPES = ("application/x-image", "image/*")
MAYBE_IMAGE_TYPES = ("", "application/octet-stream")
"""Taken for an image when the body starts like one."""


@dataclass(frozen=True)
class Invocation:
    """One request, whatever the protocol it came by. Fields left None take the configured default."""

    body: bytes
    media_type: str = ""
    model: str | None = None
    version: int | None = None
    signature: str | None = None
    transport: str | None = None


@dataclass(frozen=True)
class Answer:
    """A body and its media type."""

    body: bytes
    media_type: str


class Pipeline:
    """Answers invocations; one for each worker process, safe to use from several threads."""

    def __init__(self, settings: Settings, plan: ServingPlan, transports: Mapping[str, Transport]) -> None:
        self._settings = settings
        self._plan = plan
        self._transports = transports
        self._signatures = Signatures()
        self._images = ImageCodec(settings)

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
        signature = self._signatures.get(
            transport, model.name, invocation.version, invocation.signature or DEFAULT_SIGNATURE, clock
        )
        wanted = model.options.outputs or ()
        signature.check_outputs(wanted)
        inputs = self._inputs(invocation, model, signature, clock)
        signature.check_inputs(inputs)
        found = transport.predict(PredictCall(signature, inputs, wanted), clock)
        outputs = {name: found[name] for name in signature.outputs if name in found}
        with clock.stage("postprocess"):
            return Answer(write_predictions(outputs, _batch_size(inputs)), "application/json")

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

    def _inputs(
        self, invocation: Invocation, model: PlannedModel, signature: SignatureSpec, clock: RequestClock
    ) -> dict[str, Array]:
        if not _is_image(invocation):
            raise UnsupportedMediaType(
                f"Content-Type: expected {', '.join(IMAGE_TYPES)}, or an image as application/octet-stream; "
                f"got {invocation.media_type or 'none'}"
            )
        return self._images.decode([invocation.body], signature, model.options, clock)


def _is_image(invocation: Invocation) -> bool:
    media_type = invocation.media_type
    if media_type in MAYBE_IMAGE_TYPES:
        return is_image(invocation.body)
    return media_type == "application/x-image" or media_type.startswith("image/")


def _batch_size(inputs: Mapping[str, Array]) -> int | None:
    """Return the first dimension that all inputs share, or None."""
    sizes = {array.shape[0] if array.ndim else None for array in inputs.values()}
    return sizes.pop() if len(sizes) == 1 else None
