"""The gRPC messages, from descriptors that ``make protos`` writes.

They live in a pool of their own: a user's code, or a client in the same process, may bring its own messages of the
package ``inference``, and one pool holds a name once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

INFERENCE_SERVICE = "inference.GRPCInferenceService"
HEALTH_SERVICE = "grpc.health.v1.Health"
REFLECTION_SERVICE = "grpc.reflection.v1.ServerReflection"

_FILES = descriptor_pb2.FileDescriptorSet.FromString((Path(__file__).parent / "descriptors.binpb").read_bytes())
_POOL = descriptor_pool.DescriptorPool()
for _file in _FILES.file:
    _POOL.AddSerializedFile(_file.SerializeToString())


def message_class(name: str) -> Any:
    """Return the class of a message by its full name; KeyError for an unknown one."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


def methods_of(service: str) -> list[MethodDescriptor]:
    """Return the methods of a service by its full name."""
    return list(_POOL.FindServiceByName(service).methods)


def method(service: str, name: str) -> MethodDescriptor:
    """Return a method of a service."""
    return _POOL.FindServiceByName(service).methods_by_name[name]


def file_named(name: str) -> FileDescriptor:
    """Return a file by its name; KeyError for an unknown one."""
    return _POOL.FindFileByName(name)


def file_with(symbol: str) -> FileDescriptor:
    """Return the file that defines a service, method or message; KeyError for an unknown one."""
    return _POOL.FindFileContainingSymbol(symbol)


ModelInferResponse = message_class("inference.ModelInferResponse")
ModelStreamInferResponse = message_class("inference.ModelStreamInferResponse")
