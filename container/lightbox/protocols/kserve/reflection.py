"""gRPC's server reflection: what services there are, and the files that define them."""

from __future__ import annotations

from typing import Any

from lightbox.protocols.kserve import messages

_OFFERED = (messages.INFERENCE_SERVICE, messages.HEALTH_SERVICE, messages.REFLECTION_SERVICE)
SERVICE_NAMES = (messages.REFLECTION_SERVICE, "grpc.reflection.v1alpha.ServerReflection")
"""Older clients ask by the second name, with the same messages."""
NOT_FOUND, UNIMPLEMENTED = 5, 12
_Request = messages.message_class("grpc.reflection.v1.ServerReflectionRequest")
_Response = messages.message_class("grpc.reflection.v1.ServerReflectionResponse")


def answer(data: bytes) -> bytes:
    """Return the serialized answer to a serialized question."""
    return bytes(_answer(_Request.FromString(data)).SerializeToString())


def _answer(request: Any) -> Any:
    answer = _Response(valid_host=request.host, original_request=request)
    kind = request.WhichOneof("message_request")
    if kind == "list_services":
        for name in _OFFERED:
            answer.list_services_response.service.add(name=name)
    elif kind in ("file_by_filename", "file_containing_symbol"):
        find = messages.file_named if kind == "file_by_filename" else messages.file_with
        try:
            file = find(getattr(request, kind))
        except KeyError:
            return _error(answer, NOT_FOUND, f"there is no {getattr(request, kind)[:100]!r}")
        answer.file_descriptor_response.file_descriptor_proto.append(file.serialized_pb)
    else:
        return _error(answer, UNIMPLEMENTED, "the messages have no extensions")
    return answer


def _error(answer: Any, code: int, text: str) -> Any:
    answer.error_response.error_code = code
    answer.error_response.error_message = text
    return answer
