"""HTTP requests and responses. httptools parses headers and chunks.

A message that another reader, such as a proxy in front, could end elsewhere is refused (RFC 9112, section 6.3).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

import httptools

DEFAULT_CONTENT_TYPE = "text/html; charset=ISO-8859-1"
MAX_BODY_BYTES = 1 << 29
"""A longer body is refused by its declared length, before any of it is stored."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus} | {499: "Client Closed Request"}
"""499 is a cancelled call; HTTP has no phrase for it."""
_METHODS = {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"}
_FIRST_LINE = re.compile(r"([^ ]+) ([^\x00-\x20\x7f]+) HTTP/1\.([01])")
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_HOST = re.compile(r"[0-9A-Za-z._~%:\[\]-]*")
_DIGITS_OF_64_BITS = 20


class HttpError(Exception):
    """A request that gets an HTML page, as from libevent, and a closed connection."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Request:
    """One request; header names are in lower case, ``target`` is unchanged. httptools calls the methods."""

    method: str
    target: str
    minor_version: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    keep_alive: bool = True
    """Whether the connection stays open after the response."""
    has_head: bool = False
    is_complete: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; those behind the last chunk have no effect. Another reader could take another host."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        if key == "host" and (self.has_head or key in self.headers):
            raise HttpError(400)
        if self.has_head:
            return
        if key in self.headers:
            text = f"{self.headers[key]}, {text}"
        self.headers[key] = text

    def on_headers_complete(self) -> None:
        """End the head."""
        self.has_head = True

    def on_body(self, data: bytes) -> None:
        """Add a part of the body."""
        if not self.is_complete:
            self.body += data

    def on_message_complete(self) -> None:
        """End the body."""
        self.is_complete = True

    def on_message_begin(self) -> None:
        """Give up a request behind this one: httptools does not say where it begins."""
        self.keep_alive = self.keep_alive and not self.is_complete


@dataclass
class Response:
    """A response; ``close`` closes the connection after it."""

    status: int
    body: bytes = b""
    content_type: str = DEFAULT_CONTENT_TYPE
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False


def parse_head(head: bytes) -> tuple[Request, httptools.HttpRequestParser]:
    """Return a request without its body, and the parser that adds it. Raises HttpError and HttpParserError."""
    first, _, fields = head.partition(b"\r\n")
    found = _FIRST_LINE.fullmatch(first.decode("utf-8", "surrogateescape"))
    if found is None:
        raise HttpError(400)
    if found[1] not in _METHODS:
        raise HttpError(501)
    request = Request(found[1], found[2], int(found[3]))
    parser = httptools.HttpRequestParser(request)
    # httptools takes more blanks in the first line than others. An upgrade is declined; it would not read the body.
    parser.feed_data(b"POST / HTTP/1.1" + _UPGRADE.sub(b"\r\nx-upgrade:", b"\r\n" + fields))
    _check(request)
    options = {option.strip().lower() for option in request.headers.get("connection", "").split(",")}
    request.keep_alive = "keep-alive" in options if request.minor_version == 0 else "close" not in options
    return request, parser


def _check(request: Request) -> None:
    """Raise HttpError for headers that httptools takes and other readers may not, and for a long body."""
    if not _HOST.fullmatch(request.headers.get("host", "")):  # none is taken: tensorflow_model_server does
        raise HttpError(400)
    coding, length = request.headers.get("transfer-encoding"), request.headers.get("content-length", "0")
    if coding is not None and (coding.lower() != "chunked" or request.minor_version == 0):
        raise HttpError(400)
    if len(length) > _DIGITS_OF_64_BITS or int(length) > MAX_BODY_BYTES:
        raise HttpError(413)


def html_error(status: int) -> Response:
    """Return libevent's HTML page for requests that do not reach the API."""
    phrase = _PHRASES[status]
    page = f"<HTML><HEAD>\n<TITLE>{status} {phrase}</TITLE>\n</HEAD><BODY>\n<H1>{phrase}</H1>\n</BODY></HTML>\n"
    return Response(status, page.encode(), "text/html", close=True)


def serialize(request: Request | None, response: Response) -> tuple[bytes, bool]:
    """Return a response's bytes, and whether the connection stays open."""
    keep = request is not None and request.keep_alive and not response.close
    minor = request.minor_version if request is not None else 1
    lines = [f"HTTP/1.{minor} {response.status} {_PHRASES[response.status]}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    has_body = request is None or request.method != "HEAD"
    if has_body or response.content_type != DEFAULT_CONTENT_TYPE:
        lines.append(f"Content-Type: {response.content_type}")
    lines.append(f"Date: {formatdate(usegmt=True)}")
    if has_body:
        lines.append(f"Content-Length: {len(response.body)}")
    if not keep:
        lines.append("Connection: close")
    elif minor == 0:
        lines.append("Connection: keep-alive")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    return (head + response.body if has_body else head), keep
