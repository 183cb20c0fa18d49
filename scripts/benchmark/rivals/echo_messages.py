"""The messages of the study from the client, declared here rather than generated: both sides import this module."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "/lightbox.bench.Echo/"
_Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _Field.TYPE_STRING,
    "int32": _Field.TYPE_INT32,
    "bytes": _Field.TYPE_BYTES,
    "float": _Field.TYPE_FLOAT,
}
_MESSAGES = {
    "Basic": [("field1", "string"), ("field2", "string"), ("field3", "int32"), ("field4", "map")],
    "Base64Image": [("image", "string")],
    "BinaryImage": [("image", "bytes")],
    "Answer": [("prediction1", "floats"), ("prediction2", "map")],
}


def _declare() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="lightbox_bench_echo.proto", package="lightbox.bench")
    file.syntax = "proto3"
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            _add_field(message, field, number, kind, name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"lightbox.bench.{name}"))
        for name in _MESSAGES
    }


def _add_field(message: Any, name: str, number: int, kind: str, owner: str) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind == "floats":
        field.type, field.label = _Field.TYPE_FLOAT, _Field.LABEL_REPEATED
    elif kind == "map":
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=_Field.TYPE_INT32, label=_Field.LABEL_OPTIONAL)
        field.type, field.label = _Field.TYPE_MESSAGE, _Field.LABEL_REPEATED
        field.type_name = f".lightbox.bench.{owner}.{entry.name}"
    else:
        field.type = _TYPES[kind]


MESSAGES = _declare()
