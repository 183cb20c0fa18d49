"""The steps of a call, for gRPC and REST: find the model, run it, count it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from typing_extensions import override

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.server import classify, predict
from lightbox.model_runtime.server.classify import Kind, Result
from lightbox.model_runtime.server.core import ServerCore
from lightbox.model_runtime.server.monitoring import OTHER, Metrics
from lightbox.model_runtime.server.multi_inference import multi_inference
from lightbox.model_runtime.server.predict import DEFAULT_SIGNATURE, SignatureDef
from lightbox.model_runtime.server.servable import Servable
from lightbox.model_runtime.wire.messages import (
    get_model_metadata_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    predict_pb2,
)
from lightbox.model_runtime.wire.rest.json_inputs import InputTypesOf, PredictBody
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

GRPC, REST = "GRPC", "REST"
_RUNNABLE = ("tensorflow/serving/predict", classify.CLASSIFY.method, classify.REGRESS.method)


class PredictResult(NamedTuple):
    """Named outputs, and the version that computed them."""

    outputs: dict[str, Array]
    spec: model_pb2.ModelSpec


def model_spec(servable: Servable, signature_name: str = "") -> model_pb2.ModelSpec:
    """Return the model, version and signature of a response."""
    spec = model_pb2.ModelSpec(name=servable.name, signature_name=signature_name)
    spec.version.value = servable.version
    return spec


class Calls:
    """The calls of PredictionService; every error is a StatusError with tensorflow_model_server's text."""

    def __init__(self, core: ServerCore, metrics: Metrics, check_method_names: bool = False) -> None:
        self.core = core
        self.metrics = metrics
        self._check_method_names = check_method_names

    def counted(self, model: str, api: str, entrypoint: str) -> AbstractContextManager[None]:
        """Count the call in the block with its outcome and time."""
        return _Counted(self, model, api, entrypoint)

    def count(self, model: str, api: str, entrypoint: str, status: str, seconds: float) -> None:
        """Count a call."""
        known = model if self.core.manager.knows(model) else OTHER
        self.metrics.request(known, api, entrypoint, status, seconds)

    def _check(self, signature: SignatureDef, kind: Kind | None = None) -> None:
        """Refuse a signature of another kind, if the flag is set; Predict (None) takes any."""
        if not self._check_method_names:
            return
        if kind is not None and signature.method_name != kind.method:
            text = f"Expected {kind.name} signature method_name to be {kind.method}."
            raise invalid(f"{text} Was: {signature.method_name}")
        if signature.method_name not in _RUNNABLE:
            text = f"Expected prediction signature method_name to be one of {{{', '.join(_RUNNABLE)}}}."
            raise StatusError(Code.INTERNAL, f"{text} Was: {signature.method_name}")

    # ---------------------------------------------------------------- predict

    def predict(
        self, request: predict_pb2.PredictRequest, options: bytes, contents: Mapping[str, memoryview]
    ) -> PredictResult:
        """Answer a PredictRequest; ``contents`` are the inputs' contents that the request omits."""
        servable, session = self.core.enter(request.model_spec)
        try:
            name = request.model_spec.signature_name or DEFAULT_SIGNATURE
            signature = predict.find_signature(session, name)
            self._check(signature)
            with self.metrics.running(servable.name, "Predict"):
                outputs = predict.predict(session, signature, request, options, contents)
        finally:
            servable.leave()
        return PredictResult(outputs, model_spec(servable, name))

    def predict_body(
        self, spec: model_pb2.ModelSpec, read: Callable[[InputTypesOf], PredictBody], options: bytes
    ) -> tuple[dict[str, Array], bool]:
        """Answer a call whose inputs can be parsed only once the model is known; also return whether it is by row.

        The model is entered when ``read`` requests the input types: errors of the text come before those of the model.
        """
        held: list[tuple[Servable, Runner]] = []

        def input_types(name: str) -> dict[str, int]:
            if not held:
                held.append(self.core.enter(spec))
            return _input_types(held[0][1], name)

        try:
            body = read(input_types)
            servable, session = held[0]
            signature = session.signatures[body.signature_name or DEFAULT_SIGNATURE]
            self._check(signature)
            feeds = {signature.inputs[alias].name: array for alias, array in body.inputs.items()}
            fetches = predict.choose_outputs(signature, ())
            with self.metrics.running(servable.name, "Predict"):
                return predict.run(session, feeds, fetches, options), body.by_row
        finally:
            for servable, _ in held:
                servable.leave()

    # --------------------------------------------------------------- examples

    def examples(
        self, kind: Kind, spec: model_pb2.ModelSpec, examples: input_pb2.Input, options: bytes
    ) -> tuple[Result, model_pb2.ModelSpec]:
        """Answer a Classify or Regress call."""
        with self.core.acquire(spec) as (servable, session):
            signature = classify.find_signature(session, spec.signature_name)
            self._check(signature, kind)
            with self.metrics.running(servable.name, kind.call):
                result, count = classify.answer(kind, session, signature, examples, options)
        self.metrics.examples(servable.name, count)
        return result, model_spec(servable, spec.signature_name or DEFAULT_SIGNATURE)

    def multi_inference(
        self, request: inference_pb2.MultiInferenceRequest, options: bytes
    ) -> inference_pb2.MultiInferenceResponse:
        """Answer several classify and regress tasks over the same Examples."""
        spec = request.tasks[0].model_spec if request.tasks else model_pb2.ModelSpec()
        with self.core.acquire(spec) as (servable, session), self.metrics.running(spec.name, "MultiInference"):
            return multi_inference(session, request, options, lambda name: model_spec(servable, name))

    # --------------------------------------------------------------- metadata

    def signatures(
        self, spec: model_pb2.ModelSpec
    ) -> tuple[get_model_metadata_pb2.SignatureDefMap, model_pb2.ModelSpec]:
        """Return every signature of a model, including the initialisation op."""
        with self.core.acquire(spec) as (servable, session):
            found = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in session.signatures.items():
                found.signature_def[name].CopyFrom(signature)
            return found, model_spec(servable)


class _Counted(AbstractContextManager[None]):
    """See ``Calls.counted``."""

    def __init__(self, calls: Calls, *labels: str) -> None:
        self._calls = calls
        self._labels = labels
        self._start = time.perf_counter()

    @override
    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        status = error.code if isinstance(error, StatusError) else Code.OK
        model, api, entrypoint = self._labels
        self._calls.count(model, api, entrypoint, status.name, time.perf_counter() - self._start)


def _input_types(session: Runner, name: str) -> dict[str, int]:
    """Return input names with dtype numbers; raise INVALID_ARGUMENT for an unknown signature."""
    wanted = name or DEFAULT_SIGNATURE
    if wanted not in session.signatures:
        raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
    return {alias: info.dtype for alias, info in session.signatures[wanted].inputs.items()}
