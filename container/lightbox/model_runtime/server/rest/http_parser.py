"""Parses HTTP/1.1 requests from bytes in any pieces, with limits for everything that a client can enlarge.

A message that another reader, such as a proxy in front, could end elsewhere is refused (RFC 9112, section 6.3).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

MAX_HEAD_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 29
"""A longer body is refused by its declared length, before any of it is stored."""

_MAX_CHUNK_LINE = 1 << 10
_PIECE = 1 << 16
_LENGTH = re.compile("[0-9]{1,64}", re.ASCII)
"""Python refuses numbers of thousands of digits with an error of its own."""
_CHUNKED = re.compile("chunked", re.ASCII | re.IGNORECASE)
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - HTTP's word for a name
_FIELD = re.compile(rf"({_TOKEN}):([^\x00-\x08\x0a-\x1f\x7f]*)")
_TARGET = re.compile(r"[^\x00-\x20\x7f]+")
_HOST = re.compile(r"[0-9A-Za-z._~%:\[\]-]*")
_CHUNK_SIZE = re.compile(rf"([0-9a-fA-F]+)(?:;{_TOKEN}(?:=(?:{_TOKEN}|\"[\t !#-\[\]-~]*\"))?)*".encode())
_NO_LINE = re.compile(rb"(?<!\r)\n|\r[^\n]|\0")
"""Ends of lines for some readers only."""
_ONCE = {"content-length", "transfer-encoding", "host"}
"""Headers of which another reader could take another one, or those of the trailer."""
_METHODS = {"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"}


class HttpError(Exception):
    """A request that gets an HTML page, as from libevent, and a closed connection."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Request:
    """One request; header names are in lower case, ``target`` is unchanged."""

    method: str
    target: str
    minor_version: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open after the response."""
        options = {option.strip().lower() for option in self.headers.get("connection", "").split(",")}
        return "keep-alive" in options if self.minor_version == 0 else "close" not in options


class RequestParser:
    """Takes bytes with ``feed``, which returns a request once it is complete."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._begun = False
        self._requests = self._read()
        self.expects_continue = False

    @property
    def idle(self) -> bool:
        """Whether no byte of a request has arrived."""
        return not self._begun and not self._pending

    def feed(self, data: bytes | memoryview) -> Request | None:
        """Add bytes; return the request that they complete. Raises HttpError for invalid HTTP, or too much."""
        self._pending += data
        return next(self._requests)

    def _read(self) -> Iterator[Request | None]:
        """Yield each request, and None when more bytes are needed."""
        while True:
            while (start := bytes(self._pending[:2])) in (b"", b"\r", b"\r\n"):  # empty lines between requests
                if len(start) == 2:
                    del self._pending[:2]
                else:
                    yield None
            yield (yield from self._request())  # not in a variable: a body must not stay until the next request

    def _request(self) -> Generator[None, None, Request]:
        head = yield from self._until(b"\r\n\r\n", MAX_HEAD_BYTES, 413)
        request = _parse_head(head.decode("utf-8", "surrogateescape"))
        self._begun = True
        length = _body_length(request)
        self.expects_continue = "100-continue" in request.headers.get("expect", "").lower()
        if length is None:
            yield from self._chunks(request)
        else:
            _check_room(request, length)
            request.body = yield from self._take(length)
        self._begun = self.expects_continue = False
        return request

    def _until(self, mark: bytes, most: int, status: int) -> Generator[None, None, bytes]:
        """Consume the bytes before ``mark``; raise HttpError with ``status`` beyond ``most`` bytes."""
        searched = 0
        while True:
            end = self._pending.find(mark, searched)
            if _NO_LINE.search(self._pending, searched, len(self._pending) if end < 0 else end + len(mark)):
                raise HttpError(400)
            if end >= 0 or len(self._pending) > most:
                break
            searched = max(0, len(self._pending) - len(mark) + 1)
            yield None
        if end < 0 or end > most:
            raise HttpError(status)
        found = bytes(self._pending[:end])
        del self._pending[: end + len(mark)]
        return found

    def _take(self, size: int) -> Generator[None, None, bytearray]:
        """Consume ``size`` bytes; copies the shorter part of the buffer."""
        while len(self._pending) < size:
            yield None
        if 2 * size < len(self._pending):
            taken = self._pending[:size]
            del self._pending[:size]  # moves nothing: many requests in one piece cost no more than one by one
        else:
            taken, self._pending = self._pending, self._pending[size:]
            del taken[size:]
        return taken

    def _chunks(self, request: Request) -> Generator[None, None, None]:
        while True:
            line = yield from self._until(b"\r\n", _MAX_CHUNK_LINE, 400)
            found = _CHUNK_SIZE.fullmatch(line)
            if found is None:
                raise HttpError(400)
            size = int(found[1], 16)
            if not size:
                break
            _check_room(request, size)
            for start in range(0, size, _PIECE):  # in pieces: a long chunk is in memory only once
                request.body += yield from self._take(min(_PIECE, size - start))
            if (yield from self._take(2)) != b"\r\n":
                raise HttpError(400)
        yield from self._trailer()

    def _trailer(self) -> Generator[None, None, None]:
        """Consume the lines behind the last chunk; their fields have no effect."""
        lines, size = list[str](), 0
        while line := (yield from self._until(b"\r\n", _MAX_CHUNK_LINE, 400)):
            lines.append(line.decode("utf-8", "surrogateescape"))
            size += len(line)
            if size > MAX_HEAD_BYTES:
                raise HttpError(413)
        if _ONCE.intersection(_fields(lines)):
            raise HttpError(400)


def _body_length(request: Request) -> int | None:
    """Return the length of a request's body, None for chunks; raise HttpError unless there is one way to read it."""
    length, coding = request.headers.get("content-length"), request.headers.get("transfer-encoding")
    if coding is None:
        if not _LENGTH.fullmatch(length := "0" if length is None else length):
            raise HttpError(400)
        return int(length)
    if length is not None or request.minor_version == 0 or not _CHUNKED.fullmatch(coding):
        raise HttpError(400)
    return None


def _check_room(request: Request, size: int) -> None:
    """Raise HttpError if ``size`` more bytes exceed the limit of a body."""
    if len(request.body) + size > MAX_BODY_BYTES:
        raise HttpError(413)


def _parse_head(head: str) -> Request:
    first, *lines = head.split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.0", "HTTP/1.1") or not _TARGET.fullmatch(parts[1]):
        raise HttpError(400)
    if parts[0] not in _METHODS:
        raise HttpError(501)
    headers = _fields(lines)
    if not _HOST.fullmatch(headers.get("host", "")):  # none is taken: tensorflow_model_server does
        raise HttpError(400)
    return Request(parts[0], parts[1], int(parts[2][-1]), headers)


def _fields(lines: list[str]) -> dict[str, str]:
    """Return the values by name in lower case, those of a name in one list; raise HttpError for other lines."""
    fields: dict[str, str] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise HttpError(400)
        name, value = found[1].lower(), found[2].strip(" \t")
        if name in fields:
            if name in _ONCE:
                raise HttpError(400)
            value = f"{fields[name]}, {value}"
        fields[name] = value
    return fields
