"""The Open Inference Protocol's gRPC form, with gRPC's health checks and reflection."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from lightbox.errors import DeadlineExceeded, LightboxError, Unavailable
from lightbox.pipeline import Pipeline
from lightbox.protocols.kserve import messages, reflection
from lightbox.protocols.kserve.grpc_tensors import read_request, write_answer
from lightbox.protocols.kserve.repository import Repository
from lightbox.protocols.kserve.requests import version_number
from lightbox.protocols.sagemaker import parse_custom_attributes
from lightbox.telemetry.clock import RequestClock

log = logging.getLogger("lightbox")

ATTRIBUTES_METADATA = "x-amzn-sagemaker-custom-attributes"
REQUEST_ID_METADATA = "x-amzn-requestid"
MOST_BYTES = 2**31 - 1
"""gRPC counts a message's length in a signed 32-bit number."""
IsReady = Callable[[], bool]


class Call:
    """One call: its clock, which also heeds the caller's deadline, its metadata and its id."""

    def __init__(self, context: Any, allowed_seconds: float) -> None:
        left = context.time_remaining()
        self.clock = RequestClock(allowed_seconds if left is None else min(allowed_seconds, left))
        self.metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        self.request_id = self.metadata.get(REQUEST_ID_METADATA, "")[:128] or uuid.uuid4().hex


class InferenceService:
    """Answers the calls of inference.GRPCInferenceService; each method takes a message and returns a dict or message.

    Raised errors are told by Front.
    """

    def __init__(self, pipeline: Pipeline, repository: Repository, is_ready: IsReady) -> None:
        self._pipeline = pipeline
        self._repository = repository
        self._is_ready = is_ready

    def server_live(self, request: Any, call: Call) -> dict[str, Any]:
        """Tell that the process is there."""
        return {"live": True}

    def server_ready(self, request: Any, call: Call) -> dict[str, Any]:
        """Tell whether requests can be served, as /ping does."""
        return {"ready": self._is_ready()}

    def model_ready(self, request: Any, call: Call) -> dict[str, Any]:
        """Tell whether a model can answer; an unknown one is an error."""
        try:
            self._repository.check_ready(request.name, request.version, call.clock)
        except (Unavailable, DeadlineExceeded):
            return {"ready": False}
        return {"ready": True}

    def server_metadata(self, request: Any, call: Call) -> dict[str, Any]:
        """Describe the server."""
        return self._repository.server_metadata()

    def model_metadata(self, request: Any, call: Call) -> dict[str, Any]:
        """Describe a model's inputs and outputs."""
        return self._repository.model_metadata(request.name, request.version, call.clock)

    def model_infer(self, request: Any, call: Call) -> Any:
        """Answer with the model's outputs."""
        attributes = parse_custom_attributes(call.metadata.get(ATTRIBUTES_METADATA, ""))
        version = request.model_version or attributes.get("tfs-model-version", "")
        version_number(version)
        with call.clock.stage("decode"):
            asked = read_request(request)
        found = self._pipeline.infer(asked.tensors(request.model_name, version, attributes), call.clock)
        return write_answer(found, asked)

    def repository_index(self, request: Any, call: Call) -> dict[str, Any]:
        """List the models."""
        return {"models": self._repository.index(request.ready, call.clock)}

    def repository_model_load(self, request: Any, call: Call) -> dict[str, Any]:
        """Load a model in multi-model mode."""
        self._repository.load(request.model_name, call.clock)
        return {}

    def repository_model_unload(self, request: Any, call: Call) -> dict[str, Any]:
        """Unload a model in multi-model mode."""
        self._repository.unload(request.model_name, call.clock)
        return {}


class Front:
    """A gRPC server with the three services. ``threads`` calls are in progress at once."""

    def __init__(
        self, service: InferenceService, is_ready: IsReady, allowed_seconds: float, threads: int, max_bytes: int
    ) -> None:
        self._service = service
        self._is_ready = is_ready
        self._allowed_seconds = allowed_seconds
        options = [
            ("grpc.max_receive_message_length", min(max_bytes, MOST_BYTES)),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ]
        self.server = grpc.server(futures.ThreadPoolExecutor(threads), options=options)
        self.server.add_generic_rpc_handlers((self._inference(), self._health(), *_reflection()))

    def stop(self, grace: float) -> None:
        """Accept no more calls, and wait up to ``grace`` seconds for those in progress."""
        self.server.stop(grace).wait()

    def _inference(self) -> Any:
        handlers = {}
        for method in messages.methods_of(messages.INFERENCE_SERVICE):
            request, answer = (
                messages.message_class(kind.full_name) for kind in (method.input_type, method.output_type)
            )
            stream = method.name == "ModelStreamInfer"
            make = grpc.stream_stream_rpc_method_handler if stream else grpc.unary_unary_rpc_method_handler
            behaviour = self._stream if stream else self._unary(getattr(self._service, _snake(method.name)), answer)
            handlers[method.name] = make(behaviour, request.FromString, answer.SerializeToString)
        return grpc.method_handlers_generic_handler(messages.INFERENCE_SERVICE, handlers)

    def _unary(self, answer: Callable[[Any, Call], Any], kind: Any) -> Callable[[Any, Any], Any]:
        def behaviour(request: Any, context: Any) -> Any:
            call = Call(context, self._allowed_seconds)
            context.set_trailing_metadata(((REQUEST_ID_METADATA, call.request_id),))
            try:
                found = answer(request, call)
            except Exception as error:
                ours = _as_ours(error, call)
                context.set_trailing_metadata(((REQUEST_ID_METADATA, call.request_id), ("lightbox-code", ours.code)))
                context.abort(getattr(grpc.StatusCode, ours.grpc_status), ours.message)
            return kind(**found) if isinstance(found, dict) else found

        return behaviour

    def _stream(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Answer one request after another; an error is told in its place and ends nothing."""
        for request in requests:
            call = Call(context, self._allowed_seconds)
            answer = messages.ModelStreamInferResponse()
            try:
                answer.infer_response.CopyFrom(self._service.model_infer(request, call))
            except Exception as error:
                answer.error_message = _as_ours(error, call).message
                answer.infer_response.id = request.id
            yield answer

    def _health(self) -> Any:
        request = messages.message_class("grpc.health.v1.HealthCheckRequest").FromString
        answer = messages.message_class("grpc.health.v1.HealthCheckResponse")

        def check(asked: Any, context: Any) -> Any:
            if asked.service not in ("", messages.INFERENCE_SERVICE):
                context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {asked.service[:100]!r}")
            return answer(status="SERVING" if self._is_ready() else "NOT_SERVING")

        handler = grpc.unary_unary_rpc_method_handler(check, request, answer.SerializeToString)
        return grpc.method_handlers_generic_handler(messages.HEALTH_SERVICE, {"Check": handler})


def _reflection() -> list[Any]:
    handler = grpc.stream_stream_rpc_method_handler(
        reflection.reflect, reflection.read, lambda answer: answer.SerializeToString()
    )
    methods = {"ServerReflectionInfo": handler}
    return [grpc.method_handlers_generic_handler(name, methods) for name in reflection.SERVICE_NAMES]


def _as_ours(error: Exception, call: Call) -> LightboxError:
    ours = error if isinstance(error, LightboxError) else LightboxError(f"internal error: {type(error).__name__}")
    if ours.status >= 500:
        log.error("request %s: %s", call.request_id, ours.message, exc_info=error)
    return ours


def _snake(name: str) -> str:
    """Return ``model_infer`` for ``ModelInfer``."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).removeprefix("_")
