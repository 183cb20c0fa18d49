"""Bytes of text in any of the usual encodings, as UTF-8."""

from __future__ import annotations

import codecs

from lightbox.codecs.media_type import ContentType
from lightbox.errors import MalformedBody, TooLarge, UnsupportedMediaType

# UTF-32 before UTF-16: the mark of the one begins with that of the other.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Python knows many more by name, some of them no encodings of text, some quadratic in time.
_CHARSETS = {
    **{"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "utf-8", "ascii": "utf-8"},
    **{"utf-16": "utf-16-be", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"},
    **{"utf-32": "utf-32-be", "utf-32le": "utf-32-le", "utf-32be": "utf-32-be"},
    **{"iso-8859-1": "latin-1", "latin-1": "latin-1", "latin1": "latin-1", "windows-1252": "cp1252"},
}


def check_size(body: bytes, max_mb: int, length: int | None = None) -> None:
    """Raise TooLarge for a text of more than ``max_mb`` MiB; it is the first ``length`` bytes of the body."""
    size = len(body) if length is None else length
    if size > max_mb << 20:
        raise TooLarge(f"the text is {size} bytes, more than LIGHTBOX_MAX_TEXT_MB={max_mb} MiB")


def as_utf8(body: bytes, content_type: ContentType) -> bytes:
    """Return the text of a body as UTF-8 without a byte order mark.

    A byte order mark wins over the parameter charset; without either it is UTF-8, and then not checked.
    Raises UnsupportedMediaType for an unknown charset, MalformedBody for bytes that are not in it.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _converted(body[len(mark) :], encoding)
    charset = content_type.parameters.get("charset", "utf-8").strip().lower()
    if charset not in _CHARSETS:
        raise UnsupportedMediaType(f"Content-Type: expected a charset of {', '.join(_CHARSETS)}; got {charset[:40]!r}")
    return _converted(body, _CHARSETS[charset])


def checked_utf8(body: bytes, content_type: ContentType) -> bytes:
    """Return the text of a body as ``as_utf8`` does; raise MalformedBody for bytes that are no UTF-8, too."""
    text = as_utf8(body, content_type)
    try:
        text.isascii() or text.decode()
    except UnicodeDecodeError as error:
        raise MalformedBody(f"the body is not valid UTF-8 at byte {error.start}") from None
    return text


def _converted(body: bytes, encoding: str) -> bytes:
    if encoding == "utf-8":
        return body
    try:
        return body.decode(encoding).encode()
    except UnicodeError as error:
        raise MalformedBody(f"the body is not valid {encoding}: {error}") from None
