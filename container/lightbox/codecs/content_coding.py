"""Content-Encoding of request bodies: gzip and deflate, with a bound on what they unfold to."""

from __future__ import annotations

import zlib

from lightbox.errors import MalformedBody, TooLarge, UnsupportedMediaType
from lightbox.telemetry.clock import RequestClock

_GZIP = 16 + zlib.MAX_WBITS
_CHUNK = 1 << 12
_MOST_UNFOLDED = 1032
"""Bytes that deflate makes of one at most."""
_MAX_MEMBERS = 10_000
_WINDOW_BITS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


def decoded_body(body: bytes, content_encoding: str, max_mb: int, clock: RequestClock) -> bytes:
    """Return a body as it was before its Content-Encoding; ``max_mb`` bounds the result in MiB.

    What it unfolds to is held as memory, and weighs. Raises UnsupportedMediaType for an encoding that is not gzip or
    deflate, MalformedBody for a broken or truncated body, TooLarge before more than the limit has been unfolded,
    DeadlineExceeded, and what ``Share.hold`` raises.
    """
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in _WINDOW_BITS:
        raise UnsupportedMediaType(f"Content-Encoding: expected gzip, deflate or identity; got {coding[:40]!r}")
    return _unfolded(body, _WINDOW_BITS[coding], coding, max_mb << 20, clock)


def _unfolded(body: bytes, window_bits: int, coding: str, limit: int, clock: RequestClock) -> bytes:
    """A gzip file may consist of several; zeros after the last are padding."""
    pieces: list[bytes] = []
    view, at, left, members = memoryview(body), 0, limit, 0
    decoder = None
    while at < len(view):
        if decoder is None:
            if members and not any(view[at : at + _CHUNK]):
                at += _CHUNK
                continue
            decoder, members = zlib.decompressobj(window_bits), members + 1
        chunk = view[at : at + _CHUNK]
        clock.check()
        clock.memory.hold(len(body) + 2 * (limit - left + _MOST_UNFOLDED * len(chunk)), f"the {coding} body")
        try:
            # One byte more than is allowed tells a body at the limit from one beyond it.
            pieces.append(decoder.decompress(chunk, left + 1))
        except zlib.error as error:
            raise MalformedBody(f"the body is not valid {coding}: {error}") from None
        left -= len(pieces[-1])
        if left < 0:
            raise TooLarge(f"the {coding} body unfolds to more than LIGHTBOX_MAX_BODY_MB={limit >> 20} MiB")
        if members > _MAX_MEMBERS:
            raise TooLarge(f"the {coding} body has more than {_MAX_MEMBERS} parts")
        clock.memory.weigh(limit - left)
        at += len(chunk) - len(decoder.unused_data)
        decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise MalformedBody(f"the {coding} body is truncated")
    return b"".join(pieces)
