"""``grpc.health.v1``: two messages with one field each, encoded by hand to avoid a dependency."""

from __future__ import annotations

import grpc

from lightbox.model_runtime.wire.protobuf import read_fields

SERVICES = {b"", b"PredictionService", b"ModelService"}
"""The service names of tensorflow_model_server, which are not the full names."""

_SERVING = b"\x08\x01"
_METHOD = "/grpc.health.v1.Health/Check"


class HealthService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers Check: SERVING for the known names."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return what answers Check."""
        if handler_call_details.method != _METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(self._check)

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            found = {number: bytes(value) for number, _, value in read_fields(memoryview(request))}
            known = found.get(1, b"") in SERVICES
        except ValueError:
            known = False
        if not known:
            context.abort(grpc.StatusCode.NOT_FOUND, "service name unknown")
        return _SERVING
