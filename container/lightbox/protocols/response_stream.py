"""Amazon's event stream encoding, ``application/vnd.amazon.eventstream``, as far as an answer in parts needs it.

https://smithy.io/2.0/aws/amazon-eventstream.html

    total length, length of the headers   4 bytes each, big-endian; the whole message counts
    CRC-32 of these 8 bytes               4 bytes
    headers                               each: length of name, name, type, length of value, value
    payload
    CRC-32 of all before                  4 bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

from flask import Blueprint, Response, g, request

from lightbox.multi_model.loader import TargetModels
from lightbox.pipeline import Pipeline
from lightbox.protocols.sagemaker import invoke, target_model

MEDIA_TYPE = "application/vnd.amazon.eventstream"
MAX_PART = 1 << 20
"""Bytes of one payload; readers refuse messages beyond 16 to 24 MiB."""

_STRING = 7
_PRELUDE = struct.Struct(">II")
_CRC = struct.Struct(">I")
ACCEPT = "X-Amzn-SageMaker-Accept"
"""The type of the answer inside of the events; Accept itself would be about the stream."""

BY_LINE = ("application/jsonlines", "application/json", "text/")
LINES = "application/jsonlines"


def encode_event(event_type: str, payload: bytes) -> bytes:
    """Return one message: an event whose payload is bytes."""
    return encode_message(
        {":message-type": "event", ":event-type": event_type, ":content-type": "application/octet-stream"}, payload
    )


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message; names may have 255 bytes, values 65535."""
    encoded = b"".join(map(_header, headers, headers.values()))
    prelude = _PRELUDE.pack(_PRELUDE.size + _CRC.size + len(encoded) + len(payload) + _CRC.size, len(encoded))
    message = b"".join((prelude, _CRC.pack(zlib.crc32(prelude)), encoded, payload))
    return message + _CRC.pack(zlib.crc32(message))


def parts(body: bytes, by_line: bool) -> Iterator[bytes]:
    """Cut a body into payloads of at most MAX_PART bytes: a line each, its end included, or as they fall."""
    pieces = body.splitlines(keepends=True) if by_line else [body]
    for piece in pieces:
        for start in range(0, len(piece), MAX_PART):
            yield piece[start : start + MAX_PART]


def _header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    return struct.pack(">B", len(name_bytes)) + name_bytes + struct.pack(">BH", _STRING, len(value_bytes)) + value_bytes


def response_stream_blueprint(pipeline: Pipeline, max_body_mb: int, targets: TargetModels | None = None) -> Blueprint:
    """Return the route ``/endpoints/<name>/invocations-response-stream``.

    Without an Accept of the caller's the answer is JSON lines: one prediction, one event. Whatever fails does so
    before the stream begins, and is a ModelError.
    """
    blueprint = Blueprint("response_stream", __name__)

    @blueprint.post("/endpoints/<name>/invocations-response-stream")
    def invocations_response_stream(name: str) -> Response:
        model = target_model(targets, g.context)
        return _as_events(invoke(pipeline, max_body_mb, model, accept=request.headers.get(ACCEPT) or LINES))

    return blueprint


def _as_events(answer: Response) -> Response:
    """Put an answer into PayloadPart events; its headers stay, but for its type."""
    by_line = (answer.mimetype or "").startswith(BY_LINE)
    pieces = parts(answer.get_data(), by_line)
    answer.headers["X-Amzn-SageMaker-Content-Type"] = answer.headers["Content-Type"]
    answer.headers["Content-Type"] = MEDIA_TYPE
    answer.set_data(b"".join(encode_event("PayloadPart", piece) for piece in pieces))
    return answer
