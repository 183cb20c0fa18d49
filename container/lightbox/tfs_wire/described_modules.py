"""Modules of messages and of gRPC's stubs that are made from descriptors instead of files that protoc writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.internal import builder  # all that protoc writes imports it: it stays as it is
from typing_extensions import override

DESCRIPTORS = Path(__file__).with_name("messages.binpb")
"""A FileDescriptorSet of tensorflow-serving-api's .proto files, and of TensorFlow's that they import."""


def module_name(proto: str) -> str:
    """Return the name of a .proto file's module: that of ``a/b.proto`` is ``a.b_pb2``. TensorFlow's wheel holds XLA."""
    package = "tensorflow.compiler." if proto.startswith("xla/") else ""
    return package + proto.removesuffix(".proto").replace("/", ".") + "_pb2"


class DescribedModules(MetaPathFinder, Loader):
    """Imports the modules of ``messages.binpb``: ``tensorflow_serving.apis.predict_pb2`` and so on.

    It belongs to the end of ``sys.meta_path``, so that modules of installed packages win: protobuf refuses a second
    file of a name if it differs. Of services there are the clients, in ``..._pb2_grpc``. ``tensorflow`` itself is not
    found: code that looks for it shall not take it for installed.
    """

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import a module or package of the descriptors; None for others."""
        if not fullname.startswith(("tensorflow.", "tensorflow_serving")):
            return None  # before the descriptors are read, which nobody may need
        is_package = fullname in self._packages
        is_known = is_package or fullname.removesuffix("_grpc") in self._files
        return ModuleSpec(fullname, self, is_package=is_package) if is_known else None

    @override
    def exec_module(self, module: ModuleType) -> None:
        """Fill a module as the code that protoc writes fills itself."""
        name = module.__name__
        if name in self._files:
            _add_messages(module, self._files[name])
        elif name not in self._packages:
            services = import_module(name.removesuffix("_grpc")).DESCRIPTOR.services_by_name
            vars(module).update({f"{service}Stub": _stub(described) for service, described in services.items()})

    @cached_property
    def _files(self) -> Mapping[str, descriptor_pb2.FileDescriptorProto]:
        files = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file
        return {module_name(file.name): file for file in files}

    @cached_property
    def _packages(self) -> frozenset[str]:
        dotted = [name.split(".") for name in self._files]
        return frozenset(".".join(words[:end]) for words in dotted for end in range(1, len(words))) - {"tensorflow"}


def _add_messages(module: ModuleType, file: descriptor_pb2.FileDescriptorProto) -> None:
    imported = [import_module(module_name(name)) for name in file.dependency]
    names = vars(module)
    for index in file.public_dependency:
        names |= {name: value for name, value in vars(imported[index]).items() if not name.startswith("_")}
        # Under this name modules that protoc writes take it from here.
        alias = module_name(file.dependency[index]).removeprefix("tensorflow.compiler.")
        names[alias.replace("_", "__").replace(".", "_dot_")] = imported[index]
    names["DESCRIPTOR"] = descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    builder.BuildMessageAndEnumDescriptors(names["DESCRIPTOR"], names)
    builder.BuildTopDescriptorsAndMessages(names["DESCRIPTOR"], module.__name__, names)


def _stub(service: ServiceDescriptor) -> type:
    """Return a class as gRPC's compiler writes it: made with a channel, it has a function for each method."""

    def connect(self: Any, channel: Any) -> None:
        for method in service.methods:
            call = channel.unary_unary(
                f"/{service.full_name}/{method.name}",
                request_serializer=message_factory.GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    return type(f"{service.name}Stub", (), {"__init__": connect})
