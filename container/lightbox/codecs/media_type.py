"""Content-Type and Accept as in RFC 9110, and Content-Encoding: gzip and deflate, with limits."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from lightbox.base.errors import MalformedBody, TooLarge, UnsupportedMediaType
from lightbox.base.request_context import RequestContext

_PARAMETER = re.compile(r';[ \t]*([!#$%&\'*+.^_`|~\w-]+)=("(?:[^"\\]|\\.)*"|[^;]*)', re.ASCII)
_QUALITY = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?|\.\d{1,3})", re.ASCII)
_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')


@dataclass(frozen=True)
class ContentType:
    """A media type in lower case, such as ``text/csv``, and its parameters; "" if absent."""

    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_content_type(header: str) -> ContentType:
    """Return the media type of a raw Content-Type header."""
    name, semicolon, rest = header.partition(";")
    found = _PARAMETER.findall(semicolon + rest)
    return ContentType(name.strip().lower(), {key.lower(): _unquoted(value.strip()) for key, value in found})


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value


@lru_cache(maxsize=64)
def best_match(header: str, servable: tuple[str, ...]) -> str | None:
    """Return the media type of ``servable`` that an Accept header prefers, None if it refuses all.

    Without a header it is the first one. The most specific range that contains a type decides its quality. Among types
    of the same quality the more specific range wins, then the earlier range, then the earlier type of ``servable``
    (RFC 9110, 12.5.1 leaves that to the server).
    """
    if not header.strip():
        return servable[0]
    ranges = list(_ranges(header))
    best, best_rank = None, (0.0, 0, 0)
    for media_type in servable:
        exactness = {"*/*": 0, f"{media_type.partition('/')[0]}/*": 1, media_type: 2}
        matching = [(exactness[name], -place, q) for place, (name, q) in enumerate(ranges) if name in exactness]
        if matching:
            exact, place, quality = max(matching)
            if quality and (quality, exact, place) > best_rank:
                best, best_rank = media_type, (quality, exact, place)
    return best


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    """Yield the ranges of an Accept header with their quality; malformed ranges are left out."""
    for element in _ELEMENT.findall(header):
        parsed = parse_content_type(element)
        quality = parsed.parameters.get("q", "1")
        if _QUALITY.fullmatch(quality):
            # old Java clients send a bare "*"
            yield "*/*" if parsed.name == "*" else parsed.name, float(quality)


_GZIP = 16 + zlib.MAX_WBITS
_CHUNK = 1 << 12
_MOST_UNFOLDED = 1032
"""Largest ratio of deflate."""
_MAX_MEMBERS = 10_000
_WINDOW_BITS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
# UTF-32 before UTF-16, as the byte order mark of UTF-16 is a prefix of UTF-32's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Python has many more: some are not encodings of text, some take quadratic time.
_CHARSETS = {
    **{"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "utf-8", "ascii": "utf-8"},
    **{"utf-16": "utf-16-be", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"},
    **{"utf-32": "utf-32-be", "utf-32le": "utf-32-le", "utf-32be": "utf-32-be"},
    **{"iso-8859-1": "latin-1", "latin-1": "latin-1", "latin1": "latin-1", "windows-1252": "cp1252"},
}


def decoded_body(body: bytes, content_encoding: str, max_mb: int, context: RequestContext) -> bytes:
    """Return a body decoded from its Content-Encoding; ``max_mb`` bounds the result in MiB.

    The result counts as the request's memory and weight. Raises UnsupportedMediaType for another encoding than gzip and
    deflate, MalformedBody for a broken or truncated body, TooLarge before more than the limit is decompressed,
    DeadlineExceeded, and as ``Share.hold``.
    """
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in _WINDOW_BITS:
        raise UnsupportedMediaType(f"Content-Encoding: expected gzip, deflate or identity; got {coding[:40]!r}")
    return _decompressed_gzip(body, _WINDOW_BITS[coding], coding, max_mb << 20, context)


def _decompressed_gzip(body: bytes, window_bits: int, coding: str, limit: int, context: RequestContext) -> bytes:
    """Decompress a gzip file, which may have several members; zeros after the last one are padding."""
    pieces: list[bytes] = []
    view, at, remaining, members = memoryview(body), 0, limit, 0
    decoder = None
    while at < len(view):
        if decoder is None:
            if members and not any(view[at : at + _CHUNK]):
                at += _CHUNK
                continue
            decoder, members = zlib.decompressobj(window_bits), members + 1
        chunk = view[at : at + _CHUNK]
        context.check()
        context.memory.hold(len(body) + 2 * (limit - remaining + _MOST_UNFOLDED * len(chunk)), f"the {coding} body")
        try:
            # one byte more than the limit, to detect a body beyond it
            pieces.append(decoder.decompress(chunk, remaining + 1))
        except zlib.error as error:
            raise MalformedBody(f"the body is not valid {coding}: {error}") from None
        remaining -= len(pieces[-1])
        if remaining < 0:
            raise TooLarge(f"the {coding} body decompresses to more than LIGHTBOX_MAX_BODY_MB={limit >> 20} MiB")
        if members > _MAX_MEMBERS:
            raise TooLarge(f"the {coding} body has more than {_MAX_MEMBERS} parts")
        context.memory.weigh(limit - remaining)
        at += len(chunk) - len(decoder.unused_data)
        decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise MalformedBody(f"the {coding} body is truncated")
    return b"".join(pieces)


def as_utf8(body: bytes, content_type: ContentType) -> bytes:
    """Return the text of a body as UTF-8 without a byte order mark.

    A byte order mark has precedence over the parameter charset. The default is UTF-8, which is not checked. Raises
    UnsupportedMediaType for an unknown charset, MalformedBody for invalid bytes.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _converted(body[len(mark) :], encoding)
    charset = content_type.parameters.get("charset", "utf-8").strip().lower()
    if charset not in _CHARSETS:
        raise UnsupportedMediaType(f"Content-Type: expected a charset of {', '.join(_CHARSETS)}; got {charset[:40]!r}")
    return _converted(body, _CHARSETS[charset])


def _converted(body: bytes, encoding: str) -> bytes:
    if encoding == "utf-8":
        return body
    try:
        return body.decode(encoding).encode()
    except UnicodeError as error:
        raise MalformedBody(f"the body is not valid {encoding}: {error}") from None
