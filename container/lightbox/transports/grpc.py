"""The gRPC transport: ``PredictionService/Predict`` with numbers as raw bytes.

One channel per process, opened after the fork, as gRPC's threads do not survive one. Messages have no size limit; the
sidecar has limits of its own.
"""

from __future__ import annotations

import threading
from typing import Any

import grpc
from typing_extensions import override

from lightbox.base.errors import ModelFailed, ModelServerUnreachable, UnknownSignature
from lightbox.base.request_context import RequestContext
from lightbox.model.spec import Array, ModelCall, SignatureSpec
from lightbox.model_runtime.wire.messages import get_model_metadata_pb2
from lightbox.model_runtime.wire.predict_messages import Pieces, predict_request_pieces, read_predict_response
from lightbox.transports.base import RECONNECT_PAUSE, RECONNECT_SECONDS, Transport, from_server
from lightbox.transports.described import signature_spec

CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A restarted model server is found at once; gRPC's default pause grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel may have the connection of an old one
)
_SERVICE = "/tensorflow.serving.PredictionService/"
_PREDICT, _METADATA = "Predict", "GetModelMetadata"


def open_channel(target: str) -> grpc.Channel:
    """Return a channel to ``unix:/path`` or ``host:port`` without message limits."""
    return grpc.insecure_channel(target, options=CHANNEL_OPTIONS)


class GrpcTransport(Transport):
    """Calls one model server at ``unix:/path`` or ``host:port`` over gRPC.

    Later calls leave a channel on which one met its deadline: what has spoiled a connection, as half a frame does,
    would keep them waiting, too. Calls in progress stay on it.
    """

    name = "grpc"

    def __init__(self, target: str, reconnect_seconds: float = RECONNECT_SECONDS) -> None:
        self._target = target
        self._reconnect_seconds = reconnect_seconds
        self._opening = threading.Lock()
        self._open()

    def _open(self) -> None:
        self.channel = open_channel(self._target)
        self._methods = {
            # Raw bytes: predict_messages serializes and parses the messages.
            _PREDICT: self.channel.unary_unary(_SERVICE + _PREDICT),
            _METADATA: self.channel.unary_unary(
                _SERVICE + _METADATA,
                request_serializer=get_model_metadata_pb2.GetModelMetadataRequest.SerializeToString,
                response_deserializer=get_model_metadata_pb2.GetModelMetadataResponse.FromString,
            ),
        }

    @override
    def signature(self, model: str, version: int | None, name: str, context: RequestContext) -> SignatureSpec:
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = model
        if version is not None:
            request.model_spec.version.value = version
        response = self._call(_METADATA, request, model, version, context)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        if name not in signatures.signature_def:
            raise UnknownSignature.of(model, int(response.model_spec.version.value), name, signatures.signature_def)
        return signature_spec(model, int(response.model_spec.version.value), name, signatures.signature_def[name])

    @override
    def predict(self, call: ModelCall, context: RequestContext) -> dict[str, Array]:
        """Return the wanted outputs, exact; float arrays are read-only views of the response."""
        spec = call.signature
        with context.stage("encode"):
            request = self.packed(
                predict_request_pieces(spec.model, spec.name, call.inputs, spec.version, call.outputs)
            )
        with context.stage("predict"):
            response = self.send(request, spec, context)
        with context.stage("decode_response"):
            try:
                return read_predict_response(response)
            except ValueError as error:
                raise ModelFailed(f"the answer of the model {spec.model!r} cannot be read: {error}") from error

    def packed(self, pieces: Pieces) -> Pieces:
        """Return a PredictRequest in the form for ``send``."""
        return [b"".join(pieces)]

    def send(self, request: Pieces, spec: SignatureSpec, context: RequestContext) -> bytes | memoryview:
        """Send a PredictRequest in pieces, return the PredictResponse. Raises as ``predict`` does."""
        context.transport = GrpcTransport.name
        whole = request[0] if len(request) == 1 else b"".join(request)
        response: bytes = self._call(_PREDICT, whole, spec.model, spec.version, context)
        return response

    def _call(self, name: str, request: Any, model: str, version: int | None, context: RequestContext) -> Any:
        def attempt() -> Any | None:
            methods = self._methods
            try:
                return methods[name](request, timeout=context.time_left(), metadata=outgoing_metadata(context))
            except grpc.RpcError as error:
                if is_unsent(error):
                    return None
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    with self._opening:
                        if self._methods is methods:
                            self._open()
                raise from_server(error.code().name, error.details() or "", model, version) from error

        if (response := context.poll(attempt, RECONNECT_PAUSE, self._reconnect_seconds)) is None:
            raise ModelServerUnreachable(f"no model server can be reached for the model {model!r}")
        return response

    def close(self) -> None:
        """Close the channel."""
        self.channel.close()


def outgoing_metadata(context: RequestContext) -> tuple[tuple[str, str], ...] | None:
    """Return the metadata of a call for traces."""
    return tuple(context.outgoing.items()) or None


def is_unsent(error: grpc.RpcError) -> bool:
    """Return whether a call failed without a connection: then it is safe to send it again."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and "failed to connect" in (error.details() or "")
