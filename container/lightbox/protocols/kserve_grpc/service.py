"""What the calls of inference.GRPCInferenceService answer, bytes for bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError

from lightbox.errors import DeadlineExceeded, MalformedBody, Unavailable
from lightbox.pipeline import Pipeline
from lightbox.protocols.kserve import messages
from lightbox.protocols.kserve.grpc_counts import count_message
from lightbox.protocols.kserve.grpc_tensors import read_request, write_answer
from lightbox.protocols.kserve.repository import Repository
from lightbox.protocols.kserve.sagemaker_headers import SageMakerHeaders, read_headers
from lightbox.protocols.kserve_grpc.calls import Answered, Work
from lightbox.telemetry.clock import RequestClock
from tfs_wire.fields import LENGTH_DELIMITED, read_fields

_ID = messages.message_class("inference.ModelInferRequest").DESCRIPTOR.fields_by_name["id"].number
_FIRST_FIELDS = 8


class InferenceService:
    """Answers one message with another, or with a dict of its fields; errors are raised."""

    def __init__(self, pipeline: Pipeline, repository: Repository) -> None:
        self._pipeline = pipeline
        self._repository = repository

    def work(self, method: MethodDescriptor) -> Work:
        """Return what answers a method's serialized message with a serialized answer."""
        request = messages.message_class(method.input_type.full_name)
        answer = messages.message_class(method.output_type.full_name)
        function = getattr(self, _snake(method.name))

        def work(data: bytes, header: Callable[[str], str | None], clock: RequestClock) -> bytes:
            with self._pipeline.memory.share() as clock.memory:
                with clock.stage("decode"):
                    message = _parsed(request, data, clock)
                found = function(message, read_headers(header), clock)
                return bytes((answer(**found) if isinstance(found, dict) else found).SerializeToString())

        return work

    def model_ready(self, request: Any, headers: SageMakerHeaders, clock: RequestClock) -> dict[str, Any]:
        """Tell whether a model can answer; an unknown one is an error."""
        try:
            self._repository.check_ready(request.name, request.version, clock)
        except (Unavailable, DeadlineExceeded):
            return {"ready": False}
        return {"ready": True}

    def model_metadata(self, request: Any, headers: SageMakerHeaders, clock: RequestClock) -> dict[str, Any]:
        """Describe a model's inputs and outputs."""
        return self._repository.model_metadata(request.name, request.version, clock)

    def model_infer(self, request: Any, headers: SageMakerHeaders, clock: RequestClock) -> Any:
        """Answer with the model's outputs."""
        with clock.stage("decode"):
            asked = read_request(request)
        model = self._repository.target(request.model_name, headers, clock)
        found = self._pipeline.infer(asked.tensors(model, request.model_version, headers), clock)
        with clock.stage("postprocess"):
            return write_answer(found, asked)

    def repository_index(self, request: Any, headers: SageMakerHeaders, clock: RequestClock) -> dict[str, Any]:
        """List the models."""
        return {"models": self._repository.index(request.ready, clock)}

    def repository_model_load(self, request: Any, headers: SageMakerHeaders, clock: RequestClock) -> dict[str, Any]:
        """Load a model in multi-model mode."""
        self._repository.load(request.model_name, clock)
        return {}

    def repository_model_unload(self, request: Any, headers: SageMakerHeaders, clock: RequestClock) -> dict[str, Any]:
        """Unload a model in multi-model mode."""
        self._repository.unload(request.model_name, clock)
        return {}


def stream_answer(data: bytes, answered: Answered) -> bytes:
    """Return what a stream answers to a request: its answer, or its error beside its id."""
    answer = messages.ModelStreamInferResponse()
    if answered.error is None:
        answer.infer_response.MergeFromString(answered.data)
    else:
        answer.error_message = answered.error.message
        answer.infer_response.id = _id_of(data)
    return bytes(answer.SerializeToString())


def _id_of(data: bytes) -> str:
    """Return a request's id; "" where it is not among the first few fields, as whoever writes in order has it there."""
    with suppress(ValueError):
        for number, kind, value in islice(read_fields(memoryview(data)), _FIRST_FIELDS):
            if number == _ID and kind == LENGTH_DELIMITED:
                return str(value, "utf-8")
    return ""


def _parsed(kind: Any, data: bytes, clock: RequestClock) -> Any:
    def step(size: int) -> None:
        clock.check()
        clock.memory.hold(2 * len(data) + size, "the message")

    clock.memory.weigh(len(data))
    step(0)
    try:
        count_message(data, kind, step)
        return kind.FromString(data)
    except (DecodeError, ValueError) as error:
        raise MalformedBody(f"the message is no {kind.DESCRIPTOR.full_name}: {error}") from None


def _snake(name: str) -> str:
    """Return ``model_infer`` for ``ModelInfer``."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).removeprefix("_")
