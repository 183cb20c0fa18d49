"""A transport without a model server: models are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from typing_extensions import override

from lightbox.base.errors import ModelNotFound, UnknownSignature
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.transports.base import Transport

Function = Callable[[Mapping[str, Array]], dict[str, Array]]


class FakeTransport(Transport):
    """Serves functions as signatures; records calls in ``calls``, and their time limits in seconds in ``allowed``."""

    name = "fake"

    def __init__(self) -> None:
        self._served: dict[tuple[str, int, str], tuple[SignatureSpec, Function]] = {}
        self.calls: list[ModelCall] = []
        self.allowed: list[float] = []

    def serve(self, signature: SignatureSpec, function: Function) -> None:
        """Serve a function as one signature of one version of a model."""
        self._served[signature.model, signature.version, signature.name] = signature, function

    def withdraw(self, model: str, version: int) -> None:
        """Unload a version."""
        self._served = {key: served for key, served in self._served.items() if key[:2] != (model, version)}

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        versions = [key[1] for key in self._served if key[0] == model]
        number = max(versions, default=None) if version is None else version
        if number not in versions or number is None:
            raise ModelNotFound(f"no version {version} of {model}")
        if (model, number, name) not in self._served:
            known = [key[2] for key in self._served if key[:2] == (model, number)]
            raise UnknownSignature.of(model, number, name, known)
        return self._served[model, number, name][0]

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        self.calls.append(call)
        self.allowed.append(context.allowed_seconds)
        key = call.signature.model, call.signature.version, call.signature.name
        if key not in self._served:
            raise ModelNotFound(f"no version {key[1]} of {key[0]}")
        with context.stage("predict"):
            outputs = self._served[key][1](call.inputs)
        return {name: array for name, array in outputs.items() if not call.outputs or name in call.outputs}
