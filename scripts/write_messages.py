#!/usr/bin/env python3
"""Write the descriptors of the installed tensorflow-serving-api to messages.binpb of ``model_runtime/wire``."""

from __future__ import annotations

import importlib
from pathlib import Path

import tensorflow_serving
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from lightbox.model_runtime.wire.described_modules import DESCRIPTORS
from lightbox.model_runtime.wire.messages import placeholder_tensorflow


def installed_files() -> FileDescriptorSet:
    """Return tensorflow_serving's .proto files and their imports, in dependency order.

    The files of protobuf itself are left out: protobuf installs them.
    """
    files: dict[str, FileDescriptorProto] = {}

    def add(file: FileDescriptor) -> None:
        if file.name in files or file.name.startswith("google/"):
            return
        for imported in file.dependencies:
            add(imported)
        files[file.name] = FileDescriptorProto.FromString(file.serialized_pb)

    root = Path(tensorflow_serving.__path__[0])
    with placeholder_tensorflow():
        for path in sorted(root.rglob("*_pb2.py")):
            add(importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts)).DESCRIPTOR)
    return FileDescriptorSet(file=files.values())


if __name__ == "__main__":
    DESCRIPTORS.write_bytes(installed_files().SerializeToString())
