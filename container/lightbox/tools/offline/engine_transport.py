"""The transport that needs no model server: engines answer in the pipeline's own process."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from lightbox.base.errors import ModelNotFound, UnknownSignature
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.server.predict import choose_outputs, run, run_options
from lightbox.model_runtime.wire.dtypes import DT_BFLOAT16, number_of
from lightbox.model_runtime.wire.status import StatusError
from lightbox.transports.base import Transport, from_server
from lightbox.transports.described import signature_spec
from lightbox.transports.predict_messages import time_left


class EngineTransport(Transport):
    """Serves the versions of one model."""

    name = "process"

    def __init__(self, model: str, versions: Mapping[int, Runner]) -> None:
        self._model = model
        self._versions = versions

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        number = max(self._versions) if version is None else version
        signatures = self._runner(model, number).signatures
        if name not in signatures:
            raise UnknownSignature.of(model, number, name, list(signatures))
        return signature_spec(model, number, name, signatures[name])

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        spec = call.signature
        runner = self._runner(spec.model, spec.version)
        signature = runner.signatures[spec.name]
        feeds = {signature.inputs[name].name: _as_sent(array) for name, array in call.inputs.items()}
        seconds = time_left(context)
        context.transport = self.name
        with context.stage("predict"):
            try:
                options = run_options(None if math.isinf(seconds) else seconds)
                found = run(runner, feeds, choose_outputs(signature, call.outputs), options)
            except StatusError as error:
                raise from_server(error.code.name, error.message, spec.model, spec.version) from error
        return {name: _as_received(array) for name, array in found.items()}

    def _runner(self, model: str, version: int) -> Runner:
        if model != self._model or version not in self._versions:
            raise ModelNotFound(f"version {version} of the model {model!r} is not loaded")
        return self._versions[version]


def _as_sent(array: Array) -> Array:
    """Return an array as engines get it from a message: its texts are bytes."""
    if not array.dtype.hasobject:
        return array
    flat = np.empty(array.size, object)
    flat[:] = [item.encode() if isinstance(item, str) else bytes(item) for item in array.ravel().tolist()]
    return flat.reshape(array.shape)


def _as_received(array: Array) -> Array:
    """Return an array as a message's reader gives it: bfloat16 is widened."""
    return array.astype(np.float32) if number_of(array.dtype) == DT_BFLOAT16 else array
