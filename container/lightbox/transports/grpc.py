"""The gRPC transport: ``PredictionService/Predict`` with numbers as raw bytes.

Channels are opened after the fork, as gRPC's threads do not survive one. Messages have no size limit; the sidecar has
limits of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
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


class RenewedChannel:
    """A channel to ``unix:/path`` or ``host:port`` whose later calls leave a connection on which one met its deadline.

    What has spoiled a connection, as half a frame does, would keep them waiting, too. Calls in progress stay on it.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._leaving = threading.Lock()
        self.channel = open_channel(target)

    def unary_unary(self, route: str, **serializers: Callable[..., Any]) -> RenewedMethod:
        """Return the method of a route, as ``grpc.Channel`` does."""
        return RenewedMethod(self, route, serializers)

    def note(self, channel: grpc.Channel, code: grpc.StatusCode | None) -> None:
        """Note the status of a call on a channel, if it has one."""
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            with self._leaving:
                if self.channel is channel:
                    self.channel = open_channel(self._target)

    def close(self) -> None:
        """Close the channel."""
        self.channel.close()


class RenewedMethod:
    """A method on a RenewedChannel: ``grpc.UnaryUnaryMultiCallable`` without ``with_call``."""

    def __init__(self, renewed: RenewedChannel, route: str, serializers: dict[str, Callable[..., Any]]) -> None:
        self._renewed, self._route, self._serializers = renewed, route, serializers
        self._made = self._make()

    def __call__(self, request: Any, **options: Any) -> Any:
        """Return the response. Raises RpcError."""
        channel, method = self._current()
        try:
            return method(request, **options)
        except grpc.RpcError as error:
            self._renewed.note(channel, error.code())
            raise

    def future(self, request: Any, **options: Any) -> Any:
        """Return the future of the response."""
        channel, method = self._current()
        pending = method.future(request, **options)
        pending.add_done_callback(lambda done: self._renewed.note(channel, done.code()))
        return pending

    def _current(self) -> tuple[grpc.Channel, Any]:
        made = self._made
        if made[0] is not self._renewed.channel:
            made = self._made = self._make()
        return made

    def _make(self) -> tuple[grpc.Channel, Any]:
        channel = self._renewed.channel
        return channel, channel.unary_unary(self._route, **self._serializers)


class GrpcTransport(Transport):
    """Calls one model server at ``unix:/path`` or ``host:port`` over gRPC."""

    name = "grpc"

    def __init__(self, target: str, reconnect_seconds: float = RECONNECT_SECONDS) -> None:
        self._reconnect_seconds = reconnect_seconds
        self._channel = RenewedChannel(target)
        self._methods = {
            # Raw bytes: predict_messages serializes and parses the messages.
            _PREDICT: self._channel.unary_unary(_SERVICE + _PREDICT),
            _METADATA: self._channel.unary_unary(
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
        method = self._methods[name]

        def attempt() -> Any | None:
            try:
                return method(request, timeout=context.time_left(), metadata=outgoing_metadata(context))
            except grpc.RpcError as error:
                if is_unsent(error):
                    return None
                raise from_server(error.code().name, error.details() or "", model, version) from error

        if (response := context.poll(attempt, RECONNECT_PAUSE, self._reconnect_seconds)) is None:
            raise ModelServerUnreachable(f"no model server can be reached for the model {model!r}")
        return response

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


def outgoing_metadata(context: RequestContext) -> tuple[tuple[str, str], ...] | None:
    """Return the metadata of a call for traces."""
    return tuple(context.outgoing.items()) or None


def is_unsent(error: grpc.RpcError) -> bool:
    """Return whether a call failed without a connection: then it is safe to send it again."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and "failed to connect" in (error.details() or "")
