"""``grpc.health.v1``: two messages of one field each, written by hand instead of one more dependency."""

from __future__ import annotations

import grpc

SERVICES = {"", "PredictionService", "ModelService"}
"""The names that the real server registers: not the full names."""

_SERVING = b"\x08\x01"
_METHOD = "/grpc.health.v1.Health/Check"


def _service_name(request: bytes) -> str:
    """Return field 1 of a HealthCheckRequest."""
    if not request:
        return ""
    if request[0] != 0x0A or len(request) < 2 or len(request) != 2 + request[1]:
        raise ValueError("not a HealthCheckRequest with a short name")
    return request[2:].decode()


class HealthService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers Check: SERVING for the known names."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return what answers Check."""
        if handler_call_details.method != _METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(self._check)

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            known = _service_name(request) in SERVICES
        except ValueError:
            known = False
        if not known:
            context.abort(grpc.StatusCode.NOT_FOUND, "service name unknown")
        return _SERVING
