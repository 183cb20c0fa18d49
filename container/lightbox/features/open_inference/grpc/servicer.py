"""Answers gRPC messages in the server's threads."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError

from lightbox.base.errors import DeadlineExceeded, MalformedBody, Unavailable
from lightbox.base.request_context import Header, RequestContext
from lightbox.core.edge import Work
from lightbox.features.open_inference.dataplane import DataPlane, read_attributes
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.grpc.messages import count_message, read_request, write_response


class InferenceService:
    """Answers one message with another, or with a dict of its fields; errors are raised."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane

    def work(self, method: MethodDescriptor) -> Work:
        """Return the function that answers a method's serialized message with a serialized one."""
        request = grpc_messages.message_class(method.input_type.full_name)
        response = grpc_messages.message_class(method.output_type.full_name)
        function = getattr(self, _snake(method.name))

        def work(data: bytes, header: Header, context: RequestContext) -> bytes:
            with self._plane.pipeline.memory.share() as context.memory:
                with context.stage("decode"):
                    message = _parsed(request, data, context)
                read_attributes(header)
                found = function(message, header, context)
                with context.stage("postprocess"):
                    return bytes((response(**found) if isinstance(found, dict) else found).SerializeToString())

        return work

    def model_ready(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Return whether a model can answer; an unknown one is an error."""
        try:
            return {"ready": self._plane.model_ready(request.name, request.version, context)}
        except (Unavailable, DeadlineExceeded):
            return {"ready": False}

    def model_metadata(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Describe a model's inputs and outputs."""
        return self._plane.model_metadata(request.name, request.version, context)

    def model_config(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Return a model's configuration."""
        return {"config": self._plane.model_config(request.name, request.version, context)}

    def model_statistics(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Return a model's counts and times."""
        return self._plane.model_statistics(request.name, request.version, context)

    def model_infer(self, request: Any, header: Header, context: RequestContext) -> Any:
        """Answer with the model's outputs."""
        with context.stage("decode"):
            asked = read_request(request)
        with self._plane.target(request.model_name, header, context) as model:
            response = self._plane.model_infer(asked, model, request.model_version, read_attributes(header), context)
        with context.stage("postprocess"):
            return write_response(response, asked)

    def repository_index(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """List the models."""
        return {"models": self._plane.repository_index(request.ready, context)}

    def repository_model_load(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Load a model in multi-model mode."""
        self._plane.repository_model_load(request.model_name, context)
        return {}

    def repository_model_unload(self, request: Any, header: Header, context: RequestContext) -> dict[str, Any]:
        """Unload a model in multi-model mode."""
        self._plane.repository_model_unload(request.model_name, context)
        return {}


def _parsed(kind: Any, data: bytes, context: RequestContext) -> Any:
    def step(size: int) -> None:
        context.check()
        context.memory.hold(2 * len(data) + size, "the message")

    context.memory.weigh(len(data))
    step(0)
    try:
        count_message(data, kind, step)
        return kind.FromString(data)
    except (DecodeError, ValueError) as error:
        raise MalformedBody(f"the message is no {kind.DESCRIPTOR.full_name}: {error}") from None


def _snake(name: str) -> str:
    """Return ``model_infer`` for ``ModelInfer``."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).removeprefix("_")
