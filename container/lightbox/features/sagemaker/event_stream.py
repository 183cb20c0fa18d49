"""The response stream: ``/endpoints/<name>/invocations-response-stream``.

A subset of Amazon's event stream encoding, ``application/vnd.amazon.eventstream``
(https://smithy.io/2.0/aws/amazon-eventstream.html):

    total length, length of the headers   4 bytes each, big-endian; of the whole message
    CRC-32 of these 8 bytes               4 bytes
    headers                               each: length of name, name, type, length of value, value
    payload
    CRC-32 of all bytes before                  4 bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

from flask import Blueprint, request
from flask import Response as HttpResponse

from lightbox.core.http import http_response
from lightbox.core.operations import described
from lightbox.core.predictions import Predictions
from lightbox.features.sagemaker.schemas import STREAM_ACCEPT, STREAM_CONTENT_TYPE, STREAM_TYPE, response_stream

MAX_PART = 1 << 20
"""Largest payload in bytes; readers refuse messages beyond 16 to 24 MiB."""

_STRING = 7
_PRELUDE = struct.Struct(">II")
_CRC = struct.Struct(">I")

BY_LINE = ("application/jsonlines", "application/json", "text/")
LINES = "application/jsonlines"


def encode_event(event_type: str, payload: bytes) -> bytes:
    """Return one message: an event whose payload is bytes."""
    return encode_message(
        {":message-type": "event", ":event-type": event_type, ":content-type": "application/octet-stream"}, payload
    )


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message; names are at most 255 bytes long, values at most 65535."""
    encoded = b"".join(map(_header, headers, headers.values()))
    prelude = _PRELUDE.pack(_PRELUDE.size + _CRC.size + len(encoded) + len(payload) + _CRC.size, len(encoded))
    message = b"".join((prelude, _CRC.pack(zlib.crc32(prelude)), encoded, payload))
    return message + _CRC.pack(zlib.crc32(message))


def parts(body: bytes, by_line: bool) -> Iterator[bytes]:
    """Cut a body into payloads of at most MAX_PART bytes, one for each line with its end, or of any content."""
    pieces = body.splitlines(keepends=True) if by_line else [body]
    for piece in pieces:
        for start in range(0, len(piece), MAX_PART):
            yield piece[start : start + MAX_PART]


def _header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    return struct.pack(">B", len(name_bytes)) + name_bytes + struct.pack(">BH", _STRING, len(value_bytes)) + value_bytes


def add_response_stream(blueprint: Blueprint, predictions: Predictions) -> None:
    """Add the route.

    Without an Accept header the response is JSON lines: one event for each prediction. All errors occur before the
    stream begins, and are ModelErrors.
    """

    @blueprint.post("/endpoints/<name>/invocations-response-stream")
    @described(response_stream)
    def invoke_endpoint_stream(name: str) -> HttpResponse:
        """Predict, as SageMaker's InvokeEndpointWithResponseStream does."""
        accept = request.headers.get(STREAM_ACCEPT) or LINES
        return _as_events(http_response(predictions.answer(request.environ, loads=True, accept=accept)))


def _as_events(response: HttpResponse) -> HttpResponse:
    """Put a response into PayloadPart events; its headers stay, except for the type."""
    by_line = (response.mimetype or "").startswith(BY_LINE)
    pieces = parts(response.get_data(), by_line)
    response.headers[STREAM_CONTENT_TYPE] = response.headers["Content-Type"]
    response.headers["Content-Type"] = STREAM_TYPE
    response.set_data(b"".join(encode_event("PayloadPart", piece) for piece in pieces))
    return response
