"""protobuf messages of the project: ``make protos`` writes their descriptors from ``protos/``."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import descriptor_pool

from lightbox.model_runtime.wire.protobuf import read_fields


def read_pool(file: Path) -> descriptor_pool.DescriptorPool:
    """Return the descriptors of ``file`` in a pool of their own.

    A pool holds each name once. TensorFlow, a user's code or a client in the same process may have messages of the same
    names, for which the default pool is left free.
    """
    pool = descriptor_pool.DescriptorPool()
    for _, _, described in read_fields(memoryview(file.read_bytes())):  # a set of descriptors is one repeated field
        pool.AddSerializedFile(bytes(described))
    return pool
