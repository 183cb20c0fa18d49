"""The transport that needs no model server: engines answer in the pipeline's own process."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from typing_extensions import override

from lightbox.base.errors import ModelNotFound, UnknownSignature
from lightbox.base.request_context import RequestContext
from lightbox.model.catalogue import PlannedModel
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines import AUTO, DEFAULT
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.server.predict import choose_outputs, run, run_options
from lightbox.model_runtime.server.session_configuration import with_threads
from lightbox.model_runtime.wire.dtypes import DT_BFLOAT16, number_of
from lightbox.model_runtime.wire.messages import config_pb2
from lightbox.model_runtime.wire.status import StatusError
from lightbox.transports.base import Transport, from_server
from lightbox.transports.described import signature_spec


class EngineTransport(Transport):
    """Runs one version of one model. ``engine`` is what computes; of a model whose signatures have several, all."""

    name = "process"

    def __init__(
        self, model: PlannedModel, version: int, threads: int | None, op_threads: int, cache_folder: Path
    ) -> None:
        """Load the version for ``threads`` calls at a time, for as many as fit on all cores if None.

        ``op_threads`` are TensorFlow's inside one op, 0 if it chooses them. Raises StatusError.
        """
        self.model, self.version = model.name, version
        named = {"engine", "precision"} & model.options.model_fields_set
        options = {key: str(value) for key in named if (value := getattr(model.options, key))}
        hardware = Hardware.shared(threads or available_cores(), op_threads or 1, str(cache_folder))
        session_config = with_threads(config_pb2.ConfigProto(), op_threads)
        opener = Opener(AUTO, ("serve",), session_config, hardware, options=options)
        opened = opener.open(str(model.base_path / str(version)))
        self._runner = opened.runner
        named = {choice.engine for choice in opened.choices.values()} or {options.get("engine", AUTO)}
        self.engine = ",".join(sorted(DEFAULT if name == AUTO else name for name in named))

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        number = self.version if version is None else version
        self._check(model, number)
        if name not in self._runner.signatures:
            raise UnknownSignature.of(model, number, name, list(self._runner.signatures))
        return signature_spec(model, number, name, self._runner.signatures[name])

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        spec = call.signature
        self._check(spec.model, spec.version)
        signature = self._runner.signatures[spec.name]
        feeds = {signature.inputs[name].name: _as_sent(array) for name, array in call.inputs.items()}
        seconds = context.time_left()
        context.transport = self.name
        with context.stage("predict"):
            try:
                options = run_options(None if math.isinf(seconds) else seconds)
                found = run(self._runner, feeds, choose_outputs(signature, call.outputs), options)
            except StatusError as error:
                raise from_server(error.code.name, error.message, spec.model, spec.version) from error
        return {name: _as_received(array) for name, array in found.items()}

    def _check(self, model: str, version: int) -> None:
        if (model, version) != (self.model, self.version):
            raise ModelNotFound(f"version {version} of the model {model!r} is not loaded")


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
