"""Rewrites the index of a SavedModel's variables with Snappy-compressed blocks, as Google's builds write it.

A file has blocks and a footer: the tensors' block, a block of other tables, and the index of the first block
(core/lib/io/table_format.txt of TensorFlow).
"""

from __future__ import annotations

from pathlib import Path

from lightbox.model_runtime.wire.protobuf import read_varint, varint

_FOOTER, _MAGIC, _TRAILER = 48, 8, 5
_LITERAL = 60
"""Bytes of a piece of Snappy's that is copied as it is."""


def compress_index(version: Path) -> None:
    """Compress the index of a version with few variables: they have one block."""
    path = version / "variables" / "variables.index"
    data = path.read_bytes()
    footer = memoryview(data)[-_FOOTER:]
    others_at, position = read_varint(footer, 0)
    others_size, _ = read_varint(footer, position)
    out = bytearray()
    handle = _append(out, data[: others_at - _TRAILER])
    handles = _append(out, data[others_at : others_at + others_size]) + _append(out, _index(handle))
    path.write_bytes(out + handles.ljust(_FOOTER - _MAGIC, b"\0") + data[-_MAGIC:])


def _index(handle: bytes) -> bytes:
    """Return a block with one entry, whose key sorts after those of all tensors."""
    key = b"\xff"
    entry = varint(0) + varint(len(key)) + varint(len(handle)) + key + handle
    return entry + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def _append(out: bytearray, block: bytes) -> bytes:
    """Append a compressed block with its kind and checksum; return where it is."""
    pieces = (block[at : at + _LITERAL] for at in range(0, len(block), _LITERAL))
    content = varint(len(block)) + b"".join(bytes([len(piece) - 1 << 2]) + piece for piece in pieces)
    handle = varint(len(out)) + varint(len(content))
    out += content + b"\1" + _checksum(content + b"\1")
    return handle


def _checksum(data: bytes) -> bytes:
    """Return the masked CRC-32C."""
    crc = 0xFFFFFFFF
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
