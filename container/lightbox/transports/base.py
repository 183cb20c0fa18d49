"""What every wire to the model server can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lightbox.model_spec import Array, SignatureSpec
from lightbox.telemetry.clock import RequestClock

DEFAULT_SIGNATURE = "serving_default"


@dataclass(frozen=True)
class PredictCall:
    """One predict of one version of a model. ``outputs`` names those that are wanted; empty means all."""

    signature: SignatureSpec
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...] = ()


class Transport(Protocol):
    """Carries tensors to the model server and back. Safe to use from several threads."""

    name: str

    def signature(self, model: str, version: int | None, name: str, clock: RequestClock) -> SignatureSpec:
        """Return a signature as the model server describes it; without a version that of the newest.

        Raises ModelNotFound for a model or version that is not loaded, UnknownSignature, Unavailable and
        DeadlineExceeded.
        """
        ...

    def predict(self, call: PredictCall, clock: RequestClock) -> dict[str, Array]:
        """Return the wanted outputs by name; times the stages encode, predict and decode_response.

        Raises ModelNotFound, InputMismatch, ModelFailed, Unavailable and DeadlineExceeded.
        """
        ...
