"""The gRPC messages, from descriptors written by ``make protos``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from lightbox.model_runtime.wire.descriptors import read_pool

INFERENCE_SERVICE = "inference.GRPCInferenceService"
HEALTH_SERVICE = "grpc.health.v1.Health"
REFLECTION_SERVICE = "grpc.reflection.v1.ServerReflection"

_POOL = read_pool(Path(__file__).with_name("descriptors.binpb"))


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
