"""The gRPC form's messages have the numbers that the protocol publishes."""

from __future__ import annotations

from typing import Any

import tritonclient.grpc as triton

from lightbox.features.open_inference.grpc import messages as grpc_messages


def test_field_numbers_are_the_published_ones() -> None:
    files = (triton.service_pb2.DESCRIPTOR, triton.model_config_pb2.DESCRIPTOR)
    published = {name: found for file in files for name, found in file.message_types_by_name.items()}
    ours = grpc_messages.file_with("inference.ModelInferRequest").message_types_by_name

    def fields(message: Any) -> dict[str, Any]:
        own = {field.name: (field.number, field.type, field.is_repeated) for field in message.fields}
        nested = {nested.name: fields(nested) for nested in message.nested_types}
        return own | nested

    def check(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
        for name, found in mine.items():
            if isinstance(found, dict):
                check(found, theirs[name])
            else:
                assert theirs[name] == found, name

    assert len(ours) == 34
    for name, message in ours.items():
        check(fields(message), fields(published[name]))


def test_datatypes_have_the_published_numbers() -> None:
    ours = grpc_messages.file_with("inference.DataType").enum_types_by_name["DataType"]
    assert {value.name: value.number for value in ours.values} == dict(triton.model_config_pb2.DataType.items())
