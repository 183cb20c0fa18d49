"""Warm-up: the requests that a SavedModel brings along are answered before it is made available."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from pathlib import Path

from model_server import classify, predict
from model_server.engines.base import Runner
from model_server.multi_inference import multi_inference
from model_server.servable import Servable
from tfs_wire.messages import model_pb2, prediction_log_pb2
from tfs_wire.status import Code, StatusError, invalid

log = logging.getLogger(__name__)

REQUESTS_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MAX_RECORDS = 1000

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
    """Return the CRC-32C of a TFRecord part, masked as the format wants it."""
    crc = 0xFFFFFFFF
    for octet in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ octet) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def records(path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file; raise DATA_LOSS where it is damaged."""
    with path.open("rb") as file:
        offset = 0
        while head := file.read(_LENGTH_BYTES + _CHECKSUM_BYTES):
            length = _checked(head, _LENGTH_BYTES, offset)
            data = file.read(struct.unpack("<Q", length)[0] + _CHECKSUM_BYTES)
            yield _checked(data, len(data) - _CHECKSUM_BYTES, offset)
            offset += len(head) + len(data)


def _checked(data: bytes, size: int, offset: int) -> bytes:
    content, checksum = data[:size], data[size:]
    if len(checksum) != _CHECKSUM_BYTES or struct.unpack("<I", checksum)[0] != _masked_checksum(content):
        text = f"corrupted record at {offset}. Please verify your warmup data is in TFRecord format."
        raise StatusError(Code.DATA_LOSS, text)
    return content


def warm_up(servable: Servable, session: Runner, iterations: int = 1) -> None:
    """Answer every recorded request ``iterations`` times; raise StatusError if one cannot be read or answered."""
    path = Path(servable.path) / REQUESTS_FILE
    if not path.is_file():
        log.info("No warmup data file found at %s", path)
        return
    count = 0
    for count, record in enumerate(records(path), 1):
        if count > MAX_RECORDS:
            raise invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}")
        for _ in range(max(1, iterations)):
            _answer(session, _parse(record, path))
    log.info("Finished reading warmup data for model at %s. Number of warmup records read: %d.", path, count)


def _parse(record: bytes, path: Path) -> prediction_log_pb2.PredictionLog:
    try:
        return prediction_log_pb2.PredictionLog.FromString(record)
    except Exception:  # protobuf's DecodeError is not public
        raise invalid(f"Failed to parse warmup record: {record!r} from {path}") from None


def _answer(session: Runner, entry: prediction_log_pb2.PredictionLog) -> None:
    kind = entry.WhichOneof("log_type")
    if kind == "predict_log":
        asked = entry.predict_log.request
        name = asked.model_spec.signature_name or predict.DEFAULT_SIGNATURE
        predict.predict(session, predict.find_signature(session, name), asked, b"")
    elif kind == "classify_log":
        request = entry.classify_log.request
        signature = classify.find_signature(session, request.model_spec.signature_name)
        classify.classify(session, signature, request.input, b"")
    elif kind == "regress_log":
        request = entry.regress_log.request
        signature = classify.find_signature(session, request.model_spec.signature_name)
        classify.regress(session, signature, request.input, b"")
    elif kind == "multi_inference_log":
        multi_inference(session, entry.multi_inference_log.request, b"", lambda _: model_pb2.ModelSpec())
    else:
        raise StatusError(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind}")
