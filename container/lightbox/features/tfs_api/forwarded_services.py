"""TensorFlow Serving's gRPC services for callers: messages are forwarded unchanged to the model server.

Except for Predict calls with ranks that may crash it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from lightbox.base.error_texts import shorten_foreign, without_folders
from lightbox.base.errors import LightboxError, MalformedBody, ModelServerUnreachable
from lightbox.base.request_context import RequestContext
from lightbox.core.edge import Work
from lightbox.core.pipeline import Pipeline
from lightbox.model.plan import AnsweringServers
from lightbox.model_runtime.deadline import deadline
from lightbox.model_runtime.wire.messages import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)
from lightbox.model_runtime.wire.predict_request import read_predict_head
from lightbox.model_runtime.wire.protobuf import LENGTH_DELIMITED, check_count, read_fields
from lightbox.transports.base import RECONNECT_PAUSE, RECONNECT_SECONDS, from_server
from lightbox.transports.grpc import RenewedChannel, is_unsent, outgoing_metadata

CALLS = ("Predict", "Classify", "Regress")
METHODS = {
    "tensorflow.serving.PredictionService": {
        "Predict": predict_pb2.PredictRequest,
        "Classify": classification_pb2.ClassificationRequest,
        "Regress": regression_pb2.RegressionRequest,
        "GetModelMetadata": get_model_metadata_pb2.GetModelMetadataRequest,
        "MultiInference": inference_pb2.MultiInferenceRequest,
    },
    "tensorflow.serving.ModelService": {"GetModelStatus": get_model_status_pb2.GetModelStatusRequest},
}
"""The services, with the methods for callers and their messages; loading models is not among them."""
PREDICT = "/tensorflow.serving.PredictionService/Predict"
MOST_PARTS, MOST_FIELDS = 16 << 10, 2_000_000
"""Most fields of a message itself, and with those of the messages in it; all numbers of a tensor are one."""
_FEW_BYTES = 2 * MOST_FIELDS
"""A message of this size has no more fields."""
HEALTH = tuple(service.rpartition(".")[2] for service in METHODS)
"""TensorFlow Serving's names of the services in its health service."""
_MODEL_SPEC = 1
"""The field's number in all requests except MultiInference's."""
_MODEL_SPEC_TAG = bytes([_MODEL_SPEC << 3 | LENGTH_DELIMITED])


class ModelServerError(LightboxError):
    """The model server's error with its own status and message; ``code`` is for the log and metrics."""

    def __init__(self, message: str, status: str = "UNKNOWN", code: str = LightboxError.code) -> None:
        super().__init__(message)
        self.code = code
        self._status = status

    @property
    def grpc_status(self) -> str:
        """The model server's status."""
        return self._status


class TfsGrpc:
    """Sends calls to model servers in turn, each over one of ``channels``, with ``deadline_seconds``."""

    def __init__(
        self,
        pipeline: Pipeline,
        channels: Sequence[RenewedChannel],
        answering: AnsweringServers,
        deadline_seconds: float,
    ) -> None:
        self._pipeline = pipeline
        self._answering = answering
        self._deadline_seconds = deadline_seconds
        self._turn = itertools.count()
        routes = [f"/{service}/{method}" for service, methods in METHODS.items() for method in methods]
        self._methods = {route: [channel.unary_unary(route) for channel in channels] for route in routes}

    def work(self, route: str) -> Work:
        """Return the function that answers the messages of a route."""
        service, method = route[1:].split("/")
        kind = METHODS[service][method].DESCRIPTOR

        def work(data: bytes, header: Callable[[str], str | None], context: RequestContext) -> bytes:
            with self._pipeline.memory.share(context.turn.model) as context.memory, deadline(context.check):
                context.memory.weigh(len(data))
                context.memory.hold(3 * len(data), "the message")
                context.limit(self._deadline_seconds)
                _check(memoryview(data), kind)
                return self._answer(route, data, context)

        return work

    def _answer(self, route: str, data: bytes, context: RequestContext) -> bytes:
        context.transport = "grpc"
        spec = _model_spec(data)
        messages, chosen = [data], spec.WhichOneof("version_choice")
        if chosen == "version" and not spec.version.value:
            # Clients of OpenVINO Model Server use 0 for the newest. A version of that number has precedence.
            messages += [data + _version(number) for number in self._pipeline.versions(spec.name)]
        elif route.rpartition("/")[2] in CALLS and not chosen:
            messages = [data + _version(number) for number in self._pipeline.versions(spec.name)] + messages
        with self._pipeline.holding(spec.name, context):
            if route == PREDICT:
                self._check_ranks(messages, context)
            with context.stage("predict"):
                return self._send(route, messages, spec.name, context)

    def _check_ranks(self, messages: Sequence[bytes], context: RequestContext) -> None:
        """Raise InputMismatch for a call that may crash the model server, see RankGuard, and MalformedBody for an
        unreadable one, which the model server's own parser might accept."""
        for message in messages:
            try:
                spec, ranks = read_predict_head(message)
            except ValueError as error:
                raise MalformedBody(f"expected a PredictRequest: {error}") from error
            version = spec.version.value if spec.HasField("version") else None
            signature = self._pipeline.rank_guard.known(spec.name, version, spec.signature_name, context)
            if signature is not None:
                known = {name: rank for name, rank in ranks.items() if name in signature.inputs}
                self._pipeline.rank_guard.check_ranks(signature, known)

    def _send(self, route: str, messages: Sequence[bytes], model: str, context: RequestContext) -> bytes:
        """Return the first response other than NOT_FOUND; raise the last error."""
        methods = self._methods[route]

        def attempt() -> bytes | None:
            first = next(self._turn)
            missing: LightboxError | None = None
            servers = self._answering.servers()
            for message, step in itertools.product(messages, range(len(servers))):
                method = methods[servers[(first + step) % len(servers)]]
                try:
                    response: bytes = method(message, timeout=context.time_left(), metadata=outgoing_metadata(context))
                except grpc.RpcError as error:
                    if is_unsent(error):
                        continue
                    failure = _error_of(error, model, message)
                    if error.code() is not grpc.StatusCode.NOT_FOUND:
                        raise failure from error
                    missing = failure
                else:
                    return response
            if missing is not None:
                self._pipeline.check_loading(missing.message, context)
                raise missing
            return None

        if (response := context.poll(attempt, RECONNECT_PAUSE, RECONNECT_SECONDS)) is None:
            raise ModelServerUnreachable("no model server can be reached")
        return response


def _error_of(error: grpc.RpcError, model: str, sent: bytes) -> LightboxError:
    status, details = error.code(), error.details() or ""
    if status in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED):
        return from_server(status.name, details, model, None)  # gRPC's own message, with internal addresses
    code = from_server(status.name, details, model, None).code
    return ModelServerError(shorten_foreign(without_folders(details), sent), status.name, code)


def _check(data: memoryview, kind: Any) -> None:
    """Raise MalformedBody for a message with too many fields, which takes minutes and gigabytes in all that read it."""
    parts = 0
    with suppress(ValueError):  # the model server returns the error
        parts = sum(1 for _ in itertools.islice(read_fields(data), MOST_PARTS + 1))
    if parts > MOST_PARTS:
        raise MalformedBody(f"expected a {kind.name} of at most {MOST_PARTS:,} fields")
    try:
        if len(data) > _FEW_BYTES:
            check_count(data, kind, MOST_FIELDS)
    except ValueError as error:
        raise MalformedBody(f"expected a {kind.name}: {error}") from error


def _model_spec(data: bytes) -> model_pb2.ModelSpec:
    """Return the model of a request, an empty one if unreadable: the model server returns the error."""
    spec = model_pb2.ModelSpec()
    try:
        for number, kind, value in read_fields(memoryview(data)):
            if number == _MODEL_SPEC and kind == LENGTH_DELIMITED:
                spec.MergeFromString(bytes(value))
    except (ValueError, DecodeError):
        return model_pb2.ModelSpec()
    return spec


def _version(number: int) -> bytes:
    """Return bytes that set the version when appended to a request: protobuf merges messages of one field."""
    spec = model_pb2.ModelSpec()
    spec.version.value = number
    written = bytes(spec.SerializeToString())
    return _MODEL_SPEC_TAG + bytes([len(written)]) + written
