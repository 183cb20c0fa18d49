"""The gRPC services: method names and messages; ``core`` and ``predict`` implement the calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from lightbox.model_runtime.server.calls import GRPC, Calls
from lightbox.model_runtime.server.classify import CLASSIFY, REGRESS, Kind
from lightbox.model_runtime.server.predict import NOTHING_LEFT_OUT, run_options
from lightbox.model_runtime.wire import tensor_proto as predict_response
from lightbox.model_runtime.wire.messages import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)
from lightbox.model_runtime.wire.predict_request import read_predict_request
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

log = logging.getLogger(__name__)

PREDICTION_SERVICE = "tensorflow.serving.PredictionService"
MODEL_SERVICE = "tensorflow.serving.ModelService"

_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
_LONGEST_DETAILS = 4096
"""gRPC carries the text in a header, whose size clients limit (8 KB by default)."""
_FOR_EVER_SECONDS = 1e9
_NO_MEMORY = "Out of memory"
_SIGNATURE_DEF = "signature_def"
"""The only supported metadata field."""

Call = Callable[[Any, float | None], Message | bytes]
"""Takes a request and its remaining seconds."""


class Services(grpc.GenericRpcHandler):  # type: ignore[misc]
    """All calls of PredictionService and ModelService."""

    def __init__(self, calls: Calls, as_content: bool = False, reload_over_tcp: bool = True) -> None:
        self._calls = calls
        self._core = calls.core
        self._as_content = as_content
        methods: dict[str, tuple[type[Message], Call]] = {
            f"{PREDICTION_SERVICE}/Predict": (predict_pb2.PredictRequest, self.predict),
            f"{PREDICTION_SERVICE}/Classify": (
                classification_pb2.ClassificationRequest,
                partial(self.examples, CLASSIFY, classification_pb2.ClassificationResponse),
            ),
            f"{PREDICTION_SERVICE}/Regress": (
                regression_pb2.RegressionRequest,
                partial(self.examples, REGRESS, regression_pb2.RegressionResponse),
            ),
            f"{PREDICTION_SERVICE}/MultiInference": (
                inference_pb2.MultiInferenceRequest,
                self.multi_inference,
            ),
            f"{PREDICTION_SERVICE}/GetModelMetadata": (
                get_model_metadata_pb2.GetModelMetadataRequest,
                self.get_model_metadata,
            ),
            f"{MODEL_SERVICE}/GetModelStatus": (
                get_model_status_pb2.GetModelStatusRequest,
                self.get_model_status,
            ),
            f"{MODEL_SERVICE}/HandleReloadConfigRequest": (
                model_management_pb2.ReloadConfigRequest,
                self.reload,
            ),
        }
        of_socket = () if reload_over_tcp else (f"{MODEL_SERVICE}/HandleReloadConfigRequest",)
        self._handlers = {f"/{name}": _handler(*method, name in of_socket) for name, method in methods.items()}
        # grpc knows an attribute for a pool of its own: a probe is answered while calls take all threads.
        handler: Any = self._handlers[f"/{MODEL_SERVICE}/GetModelStatus"].unary_unary
        handler.experimental_thread_pool = ThreadPoolExecutor(1, "status")

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a method, or None for UNIMPLEMENTED."""
        return self._handlers.get(handler_call_details.method)

    def predict(
        self,
        request: predict_pb2.PredictRequest,
        seconds: float | None,
        contents: Mapping[str, memoryview] = NOTHING_LEFT_OUT,
    ) -> bytes:
        """PredictionService.Predict; ``contents`` are the inputs' contents that the request omits."""
        _check_spec(request)
        with self._calls.counted(request.model_spec.name, "Predict", GRPC):
            found = self._calls.predict(request, run_options(seconds), contents)
        return predict_response.serialize(found.outputs, found.spec.SerializeToString(), self._as_content)

    def predict_bytes(self, request: memoryview, seconds: float) -> bytes:
        """Answer a serialized PredictRequest; every failure is a StatusError, as over gRPC.

        Tensors are views of the request: its memory must not change before this returns.
        """
        try:
            message, contents = read_predict_request(request)
        except DecodeError:
            raise StatusError(Code.INTERNAL, "Exception deserializing request!") from None
        try:
            return self.predict(message, seconds, contents)
        except StatusError as error:
            raise StatusError(error.code, _details(error)) from error
        except MemoryError:
            raise StatusError(Code.RESOURCE_EXHAUSTED, _NO_MEMORY) from None
        except Exception as error:
            log.exception("Predict failed")
            raise StatusError(Code.UNKNOWN, f"Exception calling application: {error}") from error

    def examples(self, kind: Kind, response: type[Message], request: Any, seconds: float | None) -> Message:
        """PredictionService.Classify and Regress."""
        _check_spec(request)
        with self._calls.counted(request.model_spec.name, kind.call, GRPC):
            result, spec = self._calls.examples(kind, request.model_spec, request.input, run_options(seconds))
        return response(result=result, model_spec=spec)

    def multi_inference(
        self, request: inference_pb2.MultiInferenceRequest, seconds: float | None
    ) -> inference_pb2.MultiInferenceResponse:
        """PredictionService.MultiInference: several signatures over the same Examples."""
        return self._calls.multi_inference(request, run_options(seconds))

    def get_model_metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, _: float | None
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """PredictionService.GetModelMetadata."""
        _check_spec(request)
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise invalid(f"Metadata field {field} is not supported")
        signatures, spec = self._calls.signatures(request.model_spec)
        response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=spec)
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response

    def get_model_status(
        self, request: get_model_status_pb2.GetModelStatusRequest, _: float | None
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """ModelService.GetModelStatus."""
        _check_spec(request)
        response = get_model_status_pb2.GetModelStatusResponse()
        for servable in self._core.status(request.model_spec):
            item = response.model_version_status.add(version=servable.version, state=servable.state.value)
            item.status.SetInParent()
            if servable.error is not None:
                item.status.error_code = servable.error.code.value
                item.status.error_message = servable.error.message
        return response

    def reload(
        self, request: model_management_pb2.ReloadConfigRequest, seconds: float | None
    ) -> model_management_pb2.ReloadConfigResponse:
        """ModelService.HandleReloadConfigRequest: returns when each new model has an available version."""
        if request.config.WhichOneof("config") != "model_config_list":
            text = "ServerModelConfig type not supported by HandleReloadConfigRequest."
            raise invalid(f"{text} Only ModelConfigList is currently supported")
        self._core.reload(request.config, seconds)
        response = model_management_pb2.ReloadConfigResponse()
        response.status.SetInParent()
        return response


def _check_spec(request: Any) -> None:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")


def _details(error: StatusError) -> str:
    return error.message.encode("utf-8", "replace")[:_LONGEST_DETAILS].decode("utf-8", "ignore")


def _serialize(response: Message | bytes) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def _seconds_left(context: grpc.ServicerContext) -> float | None:
    """Return the client's remaining seconds; gRPC reports some hundred years without a deadline."""
    seconds = context.time_remaining()
    return None if seconds is None or seconds > _FOR_EVER_SECONDS else float(seconds)


def _handler(kind: type[Message], call: Call, of_socket: bool = False) -> grpc.RpcMethodHandler:
    """Return the handler of a call; with ``of_socket`` only clients of the UNIX socket may call."""

    def answer(request: Message, context: grpc.ServicerContext) -> Message | bytes:
        if of_socket and not context.peer().startswith("unix:"):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this call is taken over the UNIX socket only")
        try:
            return call(request, _seconds_left(context))
        except StatusError as error:
            context.abort(_STATUS_CODES[error.code.value], _details(error))
        except MemoryError:
            context.abort(_STATUS_CODES[Code.RESOURCE_EXHAUSTED.value], _NO_MEMORY)
        raise AssertionError("unreachable")

    return grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=kind.FromString, response_serializer=_serialize
    )
