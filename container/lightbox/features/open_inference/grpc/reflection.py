"""gRPC's server reflection: clients such as grpcurl read the services and messages from the server."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from lightbox.base.errors import MalformedBody
from lightbox.features.open_inference.grpc import messages as grpc_messages

_OFFERED = (grpc_messages.INFERENCE_SERVICE, grpc_messages.HEALTH_SERVICE, grpc_messages.REFLECTION_SERVICE)
SERVICE_NAMES = (grpc_messages.REFLECTION_SERVICE, "grpc.reflection.v1alpha.ServerReflection")
"""Older clients use the second name, with the same messages."""
NOT_FOUND, UNIMPLEMENTED = 5, 12
_Request = grpc_messages.message_class("grpc.reflection.v1.ServerReflectionRequest")
_Response = grpc_messages.message_class("grpc.reflection.v1.ServerReflectionResponse")


def answer(data: bytes) -> bytes:
    """Return the serialized response to a serialized request. Raises MalformedBody."""
    try:
        request = _Request.FromString(data)
    except DecodeError as error:
        raise MalformedBody(f"the message is no ServerReflectionRequest: {error}") from None
    return bytes(_answer(request).SerializeToString())


def _answer(request: Any) -> Any:
    response = _Response(valid_host=request.host, original_request=request)
    kind = request.WhichOneof("message_request")
    if kind == "list_services":
        for name in _OFFERED:
            response.list_services_response.service.add(name=name)
    elif kind in ("file_by_filename", "file_containing_symbol"):
        find = grpc_messages.file_named if kind == "file_by_filename" else grpc_messages.file_with
        try:
            file = find(getattr(request, kind))
        except KeyError:
            return _error(response, NOT_FOUND, f"there is no {getattr(request, kind)[:100]!r}")
        response.file_descriptor_response.file_descriptor_proto.append(file.serialized_pb)
    else:
        return _error(response, UNIMPLEMENTED, "the messages have no extensions")
    return response


def _error(response: Any, code: int, text: str) -> Any:
    response.error_response.error_code = code
    response.error_response.error_message = text
    return response
