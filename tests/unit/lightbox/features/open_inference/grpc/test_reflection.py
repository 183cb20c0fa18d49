"""gRPC's server reflection: off by default, and its responses when it is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from lightbox.core.pipeline import Pipeline
from lightbox.features.open_inference.grpc import messages as grpc_messages
from support.grpc_front import Caller, serving
from support.patience import PATIENCE

REFLECTION_REQUEST = grpc_messages.message_class("grpc.reflection.v1.ServerReflectionRequest")


def asked_of(caller: Caller, version: str) -> Any:
    """Return the call of a server's reflection service."""
    return caller.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=REFLECTION_REQUEST.SerializeToString,
        response_deserializer=grpc_messages.message_class("grpc.reflection.v1.ServerReflectionResponse").FromString,
    )


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_is_off_unless_it_is_asked_for(pipeline: Pipeline, tmp_path: Path, version: str) -> None:
    with serving(pipeline, tmp_path) as caller, pytest.raises(grpc.RpcError) as caught:
        list(asked_of(caller, version)(iter([REFLECTION_REQUEST(list_services="")]), timeout=PATIENCE))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_names_services_and_gives_their_files(pipeline: Pipeline, tmp_path: Path, version: str) -> None:
    questions = [
        REFLECTION_REQUEST(list_services=""),
        REFLECTION_REQUEST(file_containing_symbol=grpc_messages.INFERENCE_SERVICE),
        REFLECTION_REQUEST(file_by_filename="none"),
        REFLECTION_REQUEST(all_extension_numbers_of_type="none"),
    ]
    with serving(pipeline, tmp_path, reflection=True) as caller:
        listed, file, missing, unknown = asked_of(caller, version)(iter(questions), timeout=PATIENCE)
    assert grpc_messages.INFERENCE_SERVICE in {service.name for service in listed.list_services_response.service}
    assert b"ModelInferRequest" in file.file_descriptor_response.file_descriptor_proto[0]
    assert (missing.error_response.error_code, unknown.error_response.error_code) == (5, 12)


def test_what_is_no_question_is_reported(pipeline: Pipeline, tmp_path: Path) -> None:
    with serving(pipeline, tmp_path, reflection=True) as caller:
        ask = caller.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        with pytest.raises(grpc.RpcError, match="is no ServerReflectionRequest") as caught:
            list(ask(iter([b"\xff"]), timeout=PATIENCE))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
