"""What a call does, for both transports: find the model, run it, count it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from lightbox.engines.base import Array, Runner
from model_server import classify, predict
from model_server.classify import Kind, Result
from model_server.core import ServerCore
from model_server.metrics import Metrics
from model_server.multi_inference import multi_inference
from model_server.predict import DEFAULT_SIGNATURE, SignatureDef
from model_server.servable import Servable
from tfs_wire.messages import (
    get_model_metadata_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    predict_pb2,
)
from tfs_wire.status import Code, StatusError, invalid

GRPC, REST = "GRPC", "REST"
_RUNNABLE = ("tensorflow/serving/predict", classify.CLASSIFY.method, classify.REGRESS.method)


class Answered(NamedTuple):
    """Named outputs and where they came from."""

    outputs: dict[str, Array]
    spec: model_pb2.ModelSpec


def model_spec(servable: Servable, signature_name: str = "") -> model_pb2.ModelSpec:
    """Return which model, version and signature has answered."""
    spec = model_pb2.ModelSpec(name=servable.name, signature_name=signature_name)
    spec.version.value = servable.version
    return spec


class Calls:
    """The calls of PredictionService; every error is a StatusError with the real server's text."""

    def __init__(self, core: ServerCore, metrics: Metrics, check_method_names: bool = False) -> None:
        self.core = core
        self.metrics = metrics
        self._check_method_names = check_method_names

    @contextmanager
    def counted(self, model: str, api: str, entrypoint: str) -> Iterator[None]:
        """Count a call with its outcome and time."""
        start, status = time.perf_counter(), Code.OK
        try:
            yield
        except StatusError as error:
            status = error.code
            raise
        finally:
            self.metrics.request(model, api, entrypoint, status.name, time.perf_counter() - start)

    def _check(self, signature: SignatureDef, kind: Kind | None = None) -> None:
        """Refuse a signature of another kind, if the flag says so; Predict (None) takes any."""
        if not self._check_method_names:
            return
        if kind is not None and signature.method_name != kind.method:
            text = f"Expected {kind.name} signature method_name to be {kind.method}."
            raise invalid(f"{text} Was: {signature.method_name}")
        if signature.method_name not in _RUNNABLE:
            text = f"Expected prediction signature method_name to be one of {{{', '.join(_RUNNABLE)}}}."
            raise StatusError(Code.INTERNAL, f"{text} Was: {signature.method_name}")

    # ---------------------------------------------------------------- predict

    def predict(self, request: predict_pb2.PredictRequest, options: bytes) -> Answered:
        """Answer a PredictRequest."""
        with self.core.acquire(request.model_spec) as (servable, session):
            name = request.model_spec.signature_name or DEFAULT_SIGNATURE
            signature = predict.find_signature(session, name)
            self._check(signature)
            with self.metrics.running(servable.name, "Predict"):
                outputs = predict.predict(session, signature, request, options)
        return Answered(outputs, model_spec(servable, name))

    def predict_arrays(
        self,
        spec: model_pb2.ModelSpec,
        read: Callable[[Callable[[str], Mapping[str, int]]], tuple[str, Mapping[str, Array]]],
        options: bytes,
    ) -> dict[str, Array]:
        """Answer a call whose inputs can be read only once the model is known.

        ``read`` is given what maps a signature's name to its input types; it returns the name and inputs.
        """
        with _Late(self.core, spec) as late:
            name, inputs = read(late.input_types)
            servable, session = late.entered()
            signature = session.signatures[name or DEFAULT_SIGNATURE]
            self._check(signature)
            feeds = {signature.inputs[alias].name: array for alias, array in inputs.items()}
            fetches = predict.choose_outputs(signature, ())
            with self.metrics.running(servable.name, "Predict"):
                return predict.run(session, feeds, fetches, options)

    # --------------------------------------------------------------- examples

    def examples(
        self, kind: Kind, spec: model_pb2.ModelSpec, given: input_pb2.Input, options: bytes
    ) -> tuple[Result, model_pb2.ModelSpec]:
        """Answer a Classify or Regress call."""
        with self.core.acquire(spec) as (servable, session):
            signature = classify.find_signature(session, spec.signature_name)
            self._check(signature, kind)
            with self.metrics.running(servable.name, kind.call):
                result, count = classify.answer(kind, session, signature, given, options)
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
        """Return every signature of a model, the initialisation op included."""
        with self.core.acquire(spec) as (servable, session):
            found = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in session.signatures.items():
                found.signature_def[name].CopyFrom(signature)
            return found, model_spec(servable)


class _Late:
    """Enters the model when its input types are first asked for, and leaves it at the end of the block."""

    def __init__(self, core: ServerCore, spec: model_pb2.ModelSpec) -> None:
        self._core = core
        self._spec = spec
        self._entered: tuple[Servable, Runner] | None = None

    def __enter__(self) -> _Late:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._entered is not None:
            self._entered[0].leave()

    def entered(self) -> tuple[Servable, Runner]:
        """Return the version and its session."""
        if self._entered is None:
            self._entered = self._core.enter(self._spec)
        return self._entered

    def input_types(self, name: str) -> dict[str, int]:
        """Return input names with dtype numbers; raise INVALID_ARGUMENT for an unknown signature."""
        _, session = self.entered()
        wanted = name or DEFAULT_SIGNATURE
        if wanted not in session.signatures:
            raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
        return {alias: info.dtype for alias, info in session.signatures[wanted].inputs.items()}
