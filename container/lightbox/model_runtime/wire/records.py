"""TFRecord files, and the path of a SavedModel's warm-up requests."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from lightbox.model_runtime.access import open_file
from lightbox.model_runtime.wire.status import Code, StatusError

WARM_UP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"

_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return table


_TABLE = _crc_table()


def _masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of a TFRecord part, masked as in the format."""
    crc = 0xFFFFFFFF
    for octet in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ octet) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def records(path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file; raise DATA_LOSS for a damaged one."""
    with open_file(path) as file:
        offset, size = 0, os.fstat(file.fileno()).st_size
        while head := file.read(_LENGTH_BYTES + _CHECKSUM_BYTES):
            length = _checked(head, _LENGTH_BYTES, offset)
            data = file.read(min(struct.unpack("<Q", length)[0], size) + _CHECKSUM_BYTES)
            yield _checked(data, len(data) - _CHECKSUM_BYTES, offset)
            offset += len(head) + len(data)


def _checked(data: bytes, size: int, offset: int) -> bytes:
    content, checksum = data[:size], data[size:]
    if len(checksum) != _CHECKSUM_BYTES or struct.unpack("<I", checksum)[0] != _masked_checksum(content):
        text = f"corrupted record at {offset}. Please verify your warmup data is in TFRecord format."
        raise StatusError(Code.DATA_LOSS, text)
    return content
