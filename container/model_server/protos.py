"""Messages of the server's configuration files that no package ships: declared here, read as text protos."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
}
# Message to fields in the order of their numbers, as the real server's .proto files have them:
# name and type, "*" for repeated, a leading dot for a message.
_MESSAGES: dict[str, list[tuple[str, str]]] = {
    "BatchingParameters": [
        ("max_batch_size", ".google.protobuf.Int64Value"),
        ("batch_timeout_micros", ".google.protobuf.Int64Value"),
        ("max_enqueued_batches", ".google.protobuf.Int64Value"),
        ("num_batch_threads", ".google.protobuf.Int64Value"),
        ("thread_pool_name", ".google.protobuf.StringValue"),
        ("allowed_batch_sizes", "int64*"),
        ("pad_variable_length_inputs", "bool"),
        ("enable_large_batch_splitting", ".google.protobuf.BoolValue"),
        ("max_execution_batch_size", ".google.protobuf.Int64Value"),
    ],
    "PrometheusConfig": [("enable", "bool"), ("path", "string")],
    "MonitoringConfig": [("prometheus_config", ".tensorflow.serving.PrometheusConfig")],
    "SSLConfig": [
        ("server_key", "string"),
        ("server_cert", "string"),
        ("custom_ca", "string"),
        ("client_verify", "bool"),
    ],
}


def _declare() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="model_server/configuration.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            added = message.field.add(name=field, number=number)
            added.label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
            added.type = _TYPES.get(kind.rstrip("*"), _Field.TYPE_MESSAGE)
            if kind.startswith("."):
                added.type_name = kind
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tensorflow.serving.{name}"))
        for name in _MESSAGES
    }


_classes = _declare()
BatchingParameters: Any = _classes["BatchingParameters"]
MonitoringConfig: Any = _classes["MonitoringConfig"]
SSLConfig: Any = _classes["SSLConfig"]
